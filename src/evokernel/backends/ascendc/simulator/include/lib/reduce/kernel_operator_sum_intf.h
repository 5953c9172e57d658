// The header with which kernels include sum.
#pragma once
#include "kernel_operator.h"
