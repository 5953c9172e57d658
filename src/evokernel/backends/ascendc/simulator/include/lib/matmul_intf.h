// Matmul, as kernels include it.
#pragma once
#include "kernel_operator.h"
#include "../../runtime/matmul.h"
