// The header with which kernels include silu.
#pragma once
#include "kernel_operator.h"
