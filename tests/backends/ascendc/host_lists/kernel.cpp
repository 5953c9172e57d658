// Every tensor of a list times a factor, and plus its number of axes.
#include <iostream>

#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t MOST = 8;  // the kernel's own, whatever the host side calls so

extern "C" __global__ __aicore__ void scale_list(GM_ADDR x, GM_ADDR negated, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(data, tiling);
  ListTensorDesc from(x), to(y);
  ASSERT(from.GetSize() == data.count)
  uint32_t block_idx = GetBlockIdx();
  printf("block %d", block_idx);
  for (uint32_t i = 0; i < from.GetSize(); i++) {
    uint64_t sizes[MOST], elements = 1;
    TensorDesc<float> described;
    described.SetShapeAddr(sizes);
    from.GetDesc(described, i);
    for (uint32_t axis = 0; axis < described.GetDim(); axis++) elements *= described.GetShape(axis);
    GlobalTensor<float> source, target;
    source.SetGlobalBuffer(from.GetDataPtr<float>(i), elements);
    target.SetGlobalBuffer(to.GetDataPtr<float>(i), elements);
    for (uint64_t k = 0; k < elements; k++) target.SetValue(k, source.GetValue(k) * data.factor + float(described.GetDim()));
  }
}

#ifndef ASCENDC_CPU_DEBUG
void scale_list_do(uint32_t blockDim, void* l2ctrl, void* stream, uint8_t* x, uint8_t* y, uint8_t* workspace, uint8_t* tiling) {
  scale_list<<<blockDim, l2ctrl, stream>>>(x, nullptr, y, workspace,
                                           tiling);
}
#endif
