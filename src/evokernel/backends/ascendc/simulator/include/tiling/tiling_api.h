// What host code includes for the tiling of library functions. A kernel sees it through its tiling header, and needs the structs only.
#pragma once
#include "register/tilingdata_base.h"

#ifndef TWIN_KERNEL_TU
#include "tiling/matmul_tiling.h"
#include "tiling/platform/platform_ascendc.h"
#include "tiling/row_tiling.h"
#include "tiling/scratch_sizes.h"
#endif
