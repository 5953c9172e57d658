// The header with which kernels include topk.
#pragma once
#include "kernel_operator.h"
