// The header with which kernels include sigmoid.
#pragma once
#include "kernel_operator.h"
