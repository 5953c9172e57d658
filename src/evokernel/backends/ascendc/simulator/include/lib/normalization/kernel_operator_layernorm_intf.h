// The header with which kernels include layernorm.
#pragma once
#include "kernel_operator.h"
