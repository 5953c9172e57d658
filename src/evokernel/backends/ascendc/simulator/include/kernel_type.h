// A header of the API that some kernels include directly. The simulator declares the entire API in kernel_operator.h.
#pragma once
#include "kernel_operator.h"
