#pragma once
#include "kernel_operator.h"
using namespace AscendC;
// One row at a time through queues; DataCopyPad moves rows of any length.
class Kernel {
 public:
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR scale, GM_ADDR shift, GM_ADDR out, const GatedScaleCustomTilingData& t) {
    columns = t.columns;
    slope = t.slope;
    uint32_t first = GetBlockIdx() * t.share;
    rows = first + t.share <= t.rows ? t.share : t.rows - first;
    xGm.SetGlobalBuffer((__gm__ float*)x + first * columns, rows * columns);
    outGm.SetGlobalBuffer((__gm__ float*)out + first * columns, rows * columns);
    scaleGm.SetGlobalBuffer((__gm__ float*)scale, columns);
    shiftGm.SetGlobalBuffer((__gm__ float*)shift, columns);
    uint32_t bytes = (columns + 7) / 8 * 8 * sizeof(float);
    pipe.InitBuffer(inQueue, 1, bytes);
    pipe.InitBuffer(outQueue, 1, bytes);
    pipe.InitBuffer(fixedQueue, 2, bytes);
  }
  __aicore__ inline void Process() {
    LocalTensor<float> scale = Load(fixedQueue, scaleGm[0]);
    LocalTensor<float> shift = Load(fixedQueue, shiftGm[0]);
    for (uint32_t row = 0; row < rows; row++) {
      LocalTensor<float> x = Load(inQueue, xGm[row * columns]);
      LocalTensor<float> y = outQueue.AllocTensor<float>();
      Mul(y, x, scale, columns);
      Add(y, y, shift, columns);
      LeakyRelu(y, y, slope, columns);
      inQueue.FreeTensor(x);
      outQueue.EnQue(y);
      y = outQueue.DeQue<float>();
      DataCopyPad(outGm[row * columns], y, DataCopyExtParams(1, columns * sizeof(float), 0, 0, 0));
      outQueue.FreeTensor(y);
    }
    fixedQueue.FreeTensor(scale);
    fixedQueue.FreeTensor(shift);
  }

 private:
  template <class Queue> __aicore__ inline LocalTensor<float> Load(Queue& queue, const GlobalTensor<float>& from) {
    LocalTensor<float> tensor = queue.template AllocTensor<float>();
    DataCopyPad(tensor, from, DataCopyExtParams(1, columns * sizeof(float), 0, 0, 0), DataCopyPadExtParams<float>(false, 0, 0, 0));
    queue.EnQue(tensor);
    return queue.template DeQue<float>();
  }
  TPipe pipe;
  TQue<QuePosition::VECIN, 1> inQueue;
  TQue<QuePosition::VECIN, 2> fixedQueue;
  TQue<QuePosition::VECOUT, 1> outQueue;
  GlobalTensor<float> xGm, scaleGm, shiftGm, outGm;
  uint32_t rows, columns;
  float slope;
};
