// The header with which kernels include TCubeTiling.
#pragma once
#include "kernel_tiling/kernel_tiling.h"
