// The header with which kernels include tanh.
#pragma once
#include "kernel_operator.h"
