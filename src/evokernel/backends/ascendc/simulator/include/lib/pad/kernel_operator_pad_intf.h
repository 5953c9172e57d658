// The header with which kernels include pad.
#pragma once
#include "kernel_operator.h"
