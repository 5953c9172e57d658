// The header with which kernels include exp.
#pragma once
#include "kernel_operator.h"
