// The header with which kernels include deepnorm.
#pragma once
#include "kernel_operator.h"
