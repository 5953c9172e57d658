// The header with which kernels include asinh.
#pragma once
#include "kernel_operator.h"
