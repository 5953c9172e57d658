// The header with which kernels include axpy.
#pragma once
#include "kernel_operator.h"
