// The header with which kernels include logsoftmax.
#pragma once
#include "kernel_operator.h"
