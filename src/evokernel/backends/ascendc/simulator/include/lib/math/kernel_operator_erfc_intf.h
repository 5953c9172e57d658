// The header with which kernels include erfc.
#pragma once
#include "kernel_operator.h"
