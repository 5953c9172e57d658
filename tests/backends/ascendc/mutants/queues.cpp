// Two inputs are added tile by tile, through queues; the next tile is copied in while this one is computed.
class Kernel {
 public:
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, GM_ADDR out, GM_ADDR workspace, GM_ADDR tiling) {
    uint32_t first = GetBlockIdx() * LENGTH;
    xGm.SetGlobalBuffer((__gm__ float*)x + first, LENGTH);
    yGm.SetGlobalBuffer((__gm__ float*)y + first, LENGTH);
    outGm.SetGlobalBuffer((__gm__ float*)out + first, LENGTH);
    pipe.InitBuffer(xQueue, 2, TILE * sizeof(float));
    pipe.InitBuffer(yQueue, 2, TILE * sizeof(float));
    pipe.InitBuffer(outQueue, 2, TILE * sizeof(float));
    pipe.InitBuffer(scratch, TILE * sizeof(float));
    CopyIn(0, TILE);
    for (uint32_t at = 0; at < LENGTH; at += TILE) {
      if (at + TILE < LENGTH) CopyIn(at + TILE, Rest(at + TILE));
      Compute(Rest(at));
      CopyOut(at, Rest(at));
    }
  }

 private:
  __aicore__ inline uint32_t Rest(uint32_t at) { return LENGTH - at < TILE ? LENGTH - at : TILE; }
  __aicore__ inline void CopyIn(uint32_t at, uint32_t count) {
    LocalTensor<float> x = xQueue.AllocTensor<float>();
    LocalTensor<float> y = yQueue.AllocTensor<float>();
    DataCopy(x, xGm[at], count);
    DataCopy(y, yGm[at], count);
    xQueue.EnQue(x);
    yQueue.EnQue(y);
  }
  __aicore__ inline void Compute(uint32_t count) {
    LocalTensor<float> x = xQueue.DeQue<float>();
    LocalTensor<float> y = yQueue.DeQue<float>();
    LocalTensor<float> sum = outQueue.AllocTensor<float>();
    LocalTensor<float> doubled = scratch.Get<float>();
    Muls(doubled, y, 2.0f, count);
    Add(sum, x, doubled, count);
    outQueue.EnQue(sum);
    xQueue.FreeTensor(x);
    yQueue.FreeTensor(y);
  }
  __aicore__ inline void CopyOut(uint32_t at, uint32_t count) {
    LocalTensor<float> sum = outQueue.DeQue<float>();
    DataCopy(outGm[at], sum, count);
    outQueue.FreeTensor(sum);
  }
  TPipe pipe;
  TQue<QuePosition::VECIN, 2> xQueue, yQueue;
  TQue<QuePosition::VECOUT, 2> outQueue;
  TBuf<QuePosition::VECCALC> scratch;
  GlobalTensor<float> xGm, yGm, outGm;
};
