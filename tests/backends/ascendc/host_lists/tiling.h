// Tiling data among things that a kernel has no use for.
#pragma once
#include <string>

#include "register/tilingdata_base.h"

namespace optiling {

constexpr size_t MOST = 2 * 4;
inline std::string Named(int number) { return std::to_string(number); }

#if 0
BEGIN_TILING_DATA_DEF(ListTilingData)
TILING_DATA_FIELD_DEF(uint32_t, other);
END_TILING_DATA_DEF;
#endif

BEGIN_TILING_DATA_DEF(ListTilingData)
TILING_DATA_FIELD_DEF(uint32_t, count);
TILING_DATA_FIELD_DEF(float, factor)
TILING_DATA_FIELD_DEF_ARR(uint8_t, MOST, spare);
END_TILING_DATA_DEF;

REGISTER_TILING_DATA_CLASS(ScaleList, ListTilingData)

}  // namespace optiling
