// The header with which kernels include acosh.
#pragma once
#include "kernel_operator.h"
