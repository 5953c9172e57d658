// The header with which kernels include xor.
#pragma once
#include "kernel_operator.h"
