// The header with which kernels include clamp.
#pragma once
#include "kernel_operator.h"
