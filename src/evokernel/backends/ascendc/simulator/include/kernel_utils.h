// Helpers of CANN that some kernels include by name; the twin has them with the rest.
#pragma once
#include "kernel_operator.h"
