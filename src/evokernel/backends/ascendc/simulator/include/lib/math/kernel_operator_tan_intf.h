// The header with which kernels include tan.
#pragma once
#include "kernel_operator.h"
