#include "gated_scale.h"
extern "C" __global__ __aicore__ void gated_scale_custom(GM_ADDR x, GM_ADDR scale, GM_ADDR shift, GM_ADDR out, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(t, tiling);
  Kernel op;
  op.Init(x, scale, shift, out, t);
  op.Process();
}
