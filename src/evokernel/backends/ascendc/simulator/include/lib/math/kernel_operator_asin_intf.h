// The header with which kernels include asin.
#pragma once
#include "kernel_operator.h"
