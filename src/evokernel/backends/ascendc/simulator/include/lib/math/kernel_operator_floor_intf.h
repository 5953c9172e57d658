// The header with which kernels include floor.
#pragma once
#include "kernel_operator.h"
