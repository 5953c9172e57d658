// The header with which kernels include trunc.
#pragma once
#include "kernel_operator.h"
