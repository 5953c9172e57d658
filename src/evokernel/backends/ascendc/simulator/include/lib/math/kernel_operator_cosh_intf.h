// The header with which kernels include cosh.
#pragma once
#include "kernel_operator.h"
