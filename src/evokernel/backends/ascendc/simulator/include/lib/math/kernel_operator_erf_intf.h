// The header with which kernels include erf.
#pragma once
#include "kernel_operator.h"
