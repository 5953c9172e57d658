#pragma once
#include "register/tilingdata_base.h"
namespace optiling {
BEGIN_TILING_DATA_DEF(GatedScaleCustomTilingData)
TILING_DATA_FIELD_DEF(uint32_t, rows);
TILING_DATA_FIELD_DEF(uint32_t, columns);
TILING_DATA_FIELD_DEF(uint32_t, share);
TILING_DATA_FIELD_DEF(float, slope);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(GatedScaleCustom, GatedScaleCustomTilingData)
}
