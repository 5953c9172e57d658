// The header with which kernels include groupnorm.
#pragma once
#include "kernel_operator.h"
