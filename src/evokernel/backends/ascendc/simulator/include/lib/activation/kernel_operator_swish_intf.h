// The header with which kernels include swish.
#pragma once
#include "kernel_operator.h"
