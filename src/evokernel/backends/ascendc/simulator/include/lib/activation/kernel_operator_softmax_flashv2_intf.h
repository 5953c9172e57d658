// The header with which kernels include softmax_flashv2.
#pragma once
#include "kernel_operator.h"
