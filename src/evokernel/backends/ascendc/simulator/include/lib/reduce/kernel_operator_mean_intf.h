// The header with which kernels include mean.
#pragma once
#include "kernel_operator.h"
