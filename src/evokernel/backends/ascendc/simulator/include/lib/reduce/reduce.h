// reduce, as kernels include it by itself.
#pragma once
#include "kernel_operator.h"
