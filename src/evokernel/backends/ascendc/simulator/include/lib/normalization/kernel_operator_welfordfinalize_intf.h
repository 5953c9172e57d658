// The header with which kernels include welfordfinalize.
#pragma once
#include "kernel_operator.h"
