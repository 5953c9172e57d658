// One tile, with tensors at hand for whatever is to be tried on them.
class Kernel {
 public:
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, GM_ADDR out, GM_ADDR workspace, GM_ADDR tiling) {
    GlobalTensor<float> xGm, outGm;
    xGm.SetGlobalBuffer((__gm__ float*)x + GetBlockIdx() * LENGTH, LENGTH);
    outGm.SetGlobalBuffer((__gm__ float*)out + GetBlockIdx() * LENGTH, LENGTH);
    TPipe pipe;
    TQue<QuePosition::VECIN, 1> in;
    TQue<QuePosition::VECOUT, 1> results;
    TBuf<> wideBuffer, offsetBuffer, smallBuffer;
    pipe.InitBuffer(in, 1, TILE * sizeof(float));
    pipe.InitBuffer(results, 1, TILE * sizeof(float));
    pipe.InitBuffer(wideBuffer, 4 * TILE * sizeof(float));
    pipe.InitBuffer(offsetBuffer, TILE * sizeof(float));
    pipe.InitBuffer(smallBuffer, 32);
    LocalTensor<float> a = in.AllocTensor<float>();
    DataCopy(a, xGm, TILE);
    in.EnQue(a);
    a = in.DeQue<float>();
    LocalTensor<float> b = results.AllocTensor<float>(), wide = wideBuffer.Get<float>(), small = smallBuffer.Get<float>();
    LocalTensor<int32_t> fours = offsetBuffer.Get<int32_t>();
    LocalTensor<uint32_t> offsets = fours.ReinterpretCast<uint32_t>();
    LocalTensor<uint8_t> bits = wide.ReinterpretCast<uint8_t>();
    Duplicate(wide, 1.0f, 4 * TILE);
    Duplicate(fours, 4, TILE);
    Adds(b, a, 1.0f, TILE);
    in.FreeTensor(a);
    results.EnQue(b);
    b = results.DeQue<float>();
    DataCopy(outGm, b, TILE);
    results.FreeTensor(b);
  }
};
