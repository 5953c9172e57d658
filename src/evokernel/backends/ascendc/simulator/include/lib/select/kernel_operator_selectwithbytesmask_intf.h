// The header with which kernels include selectwithbytesmask.
#pragma once
#include "kernel_operator.h"
