// The header with which kernels include softmax.
#pragma once
#include "kernel_operator.h"
