// The header with which kernels include reduce.
#pragma once
#include "kernel_operator.h"
