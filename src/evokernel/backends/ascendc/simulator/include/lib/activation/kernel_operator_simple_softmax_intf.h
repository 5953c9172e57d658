// The header with which kernels include simple_softmax.
#pragma once
#include "kernel_operator.h"
