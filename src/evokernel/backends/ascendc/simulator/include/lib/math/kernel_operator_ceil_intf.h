// The header with which kernels include ceil.
#pragma once
#include "kernel_operator.h"
