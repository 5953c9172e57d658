// Tiling of library functions, for host code. A kernel includes it through its tiling header and needs only the structs.
#pragma once
#include "register/tilingdata_base.h"

#ifndef SIMULATOR_KERNEL_TU
#include "tiling/matmul_tiling.h"
#include "tiling/platform/platform_ascendc.h"
#include "tiling/row_tiling.h"
#include "tiling/scratch_sizes.h"
#endif
