// The header with which kernels include acos.
#pragma once
#include "kernel_operator.h"
