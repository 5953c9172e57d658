#include "register/tilingdata_base.h"
namespace optiling {
BEGIN_TILING_DATA_DEF(KernelCustomTilingData)
TILING_DATA_FIELD_DEF(int32_t, which);
TILING_DATA_FIELD_DEF(uint32_t, length);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(KernelCustom, KernelCustomTilingData)
}
