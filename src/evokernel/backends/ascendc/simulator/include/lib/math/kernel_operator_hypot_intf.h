// The header with which kernels include hypot.
#pragma once
#include "kernel_operator.h"
