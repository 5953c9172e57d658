// The header with which kernels include atanh.
#pragma once
#include "kernel_operator.h"
