// The header with which kernels include lgamma.
#pragma once
#include "kernel_operator.h"
