#pragma once
#include "register/tilingdata_base.h"

namespace optiling {
BEGIN_TILING_DATA_DEF(BlendTilingData)
TILING_DATA_FIELD_DEF(float, sign);
TILING_DATA_FIELD_DEF(float, offset);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(BlendList, BlendTilingData)
}  // namespace optiling
