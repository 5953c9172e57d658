// One tile without queues: flags order what the pipes do.
class Kernel {
 public:
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, GM_ADDR out, GM_ADDR workspace, GM_ADDR tiling) {
    uint32_t first = GetBlockIdx() * LENGTH;
    GlobalTensor<float> xGm, outGm;
    xGm.SetGlobalBuffer((__gm__ float*)x + first, LENGTH);
    outGm.SetGlobalBuffer((__gm__ float*)out + first, LENGTH);
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, LENGTH * sizeof(float));
    LocalTensor<float> t = buffer.Get<float>();
    event_t loaded = EVENT_ID0, computed = EVENT_ID1;
    DataCopy(t, xGm, LENGTH);
    SetFlag<HardEvent::MTE2_V>(loaded);
    WaitFlag<HardEvent::MTE2_V>(loaded);
    Muls(t, t, 3.0f, LENGTH);
    SetFlag<HardEvent::V_MTE3>(computed);
    WaitFlag<HardEvent::V_MTE3>(computed);
    DataCopy(outGm, t, LENGTH);
  }
};
