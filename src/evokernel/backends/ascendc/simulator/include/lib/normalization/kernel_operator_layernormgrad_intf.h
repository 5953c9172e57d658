// The header with which kernels include layernormgrad.
#pragma once
#include "kernel_operator.h"
