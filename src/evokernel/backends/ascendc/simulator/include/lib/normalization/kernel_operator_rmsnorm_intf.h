// The header with which kernels include rmsnorm.
#pragma once
#include "kernel_operator.h"
