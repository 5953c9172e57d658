// The header with which kernels include ascend_quant.
#pragma once
#include "kernel_operator.h"
