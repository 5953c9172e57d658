// The header with which kernels include reduce_xor_sum.
#pragma once
#include "kernel_operator.h"
