// The header with which kernels include Matmul.
#pragma once
#include "kernel_operator.h"
#include "../../runtime/matmul.h"
