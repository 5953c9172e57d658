// The header with which kernels include cumsum.
#pragma once
#include "kernel_operator.h"
