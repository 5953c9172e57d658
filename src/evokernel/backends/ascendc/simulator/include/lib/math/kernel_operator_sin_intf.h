// The header with which kernels include sin.
#pragma once
#include "kernel_operator.h"
