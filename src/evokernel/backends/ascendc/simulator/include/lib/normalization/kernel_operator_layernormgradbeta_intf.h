// The header with which kernels include layernormgradbeta.
#pragma once
#include "kernel_operator.h"
