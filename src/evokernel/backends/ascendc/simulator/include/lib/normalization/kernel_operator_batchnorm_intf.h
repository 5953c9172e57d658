// The header with which kernels include batchnorm.
#pragma once
#include "kernel_operator.h"
