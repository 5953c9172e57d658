// The header with which kernels include ascend_dequant.
#pragma once
#include "kernel_operator.h"
