// Writes its tiling data to its output, field by field: what the host set is what the kernel sees.
#include "kernel_operator.h"

extern "C" __global__ __aicore__ void copy_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  if (AscendC::GetBlockIdx() != 0) return;
  GET_TILING_DATA(data, tiling);
  AscendC::GlobalTensor<float> out;
  out.SetGlobalBuffer((__gm__ float*)y, 8);
  const float values[8] = {float(data.first),      data.number,
                           float(data.list[0]),    float(data.list[2]),
                           float(data.inner.small), float(data.inner.large),
                           float(data.last),       float(sizeof(CopyTilingData))};
  for (int i = 0; i < 8; i++) out.SetValue(i, values[i]);
}
