// The header with which kernels include softmax_grad.
#pragma once
#include "kernel_operator.h"
