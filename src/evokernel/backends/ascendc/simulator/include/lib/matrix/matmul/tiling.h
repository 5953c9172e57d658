// TCubeTiling, as kernels include it by itself.
#pragma once
#include "kernel_tiling/kernel_tiling.h"
