// The header with which kernels include dropout.
#pragma once
#include "kernel_operator.h"
