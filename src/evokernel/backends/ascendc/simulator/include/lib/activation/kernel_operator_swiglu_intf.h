// The header with which kernels include swiglu.
#pragma once
#include "kernel_operator.h"
