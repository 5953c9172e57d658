// Tiling data of every kind of field.
#pragma once
#include "register/tilingdata_base.h"

namespace optiling {
BEGIN_TILING_DATA_DEF(InnerTilingData)
  TILING_DATA_FIELD_DEF(uint8_t, small);
  TILING_DATA_FIELD_DEF(uint64_t, large);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(InnerTilingDataOp, InnerTilingData)

BEGIN_TILING_DATA_DEF(CopyTilingData)
  TILING_DATA_FIELD_DEF(uint8_t, first);
  TILING_DATA_FIELD_DEF(float, number);
  TILING_DATA_FIELD_DEF_ARR(uint16_t, 3, list);
  TILING_DATA_FIELD_DEF_STRUCT(InnerTilingData, inner);
  TILING_DATA_FIELD_DEF(int64_t, last);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(CopyCustom, CopyTilingData)
}  // namespace optiling
