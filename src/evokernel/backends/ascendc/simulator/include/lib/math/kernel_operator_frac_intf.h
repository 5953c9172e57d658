// The header with which kernels include frac.
#pragma once
#include "kernel_operator.h"
