// The same product by the cube's own instructions.
class Kernel {
 public:
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, GM_ADDR out, GM_ADDR workspace, GM_ADDR tiling) {
    CrossCoreSetFlag<0, PIPE_MTE3>(1);
    CrossCoreWaitFlag(1);
    if (!(ASCEND_IS_AIC)) return;
    if (GetBlockIdx() > 0) return;
    TPipe pipe;
    TBuf<TPosition::A1> a1;
    TBuf<TPosition::B1> b1;
    TBuf<TPosition::A2> a2;
    TBuf<TPosition::B2> b2;
    TBuf<TPosition::CO1> co1;
    pipe.InitBuffer(a1, 1024);
    pipe.InitBuffer(b1, 1024);
    pipe.InitBuffer(a2, 1024);
    pipe.InitBuffer(b2, 1024);
    pipe.InitBuffer(co1, 1024);
    GlobalTensor<half> left, right;
    GlobalTensor<float> to;
    left.SetGlobalBuffer((__gm__ half*)x);
    right.SetGlobalBuffer((__gm__ half*)y);
    to.SetGlobalBuffer((__gm__ float*)out);
    LocalTensor<half> leftNear = a1.Get<half>(), rightNear = b1.Get<half>(), leftAt = a2.Get<half>(), rightAt = b2.Get<half>();
    LocalTensor<float> sums = co1.Get<float>();
    DataCopy(leftNear, left, Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0));
    DataCopy(rightNear, right, Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0));
    SetFlag<HardEvent::MTE2_MTE1>(0);
    WaitFlag<HardEvent::MTE2_MTE1>(0);
    LoadData(leftAt, leftNear, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
    LoadData(rightAt, rightNear, LoadData2DParams(0, 1, 1, 0, 0, true, 0));
    SetFlag<HardEvent::MTE1_M>(0);
    WaitFlag<HardEvent::MTE1_M>(0);
    MmadParams by;
    by.m = by.n = by.k = 16;
    Mmad(sums, leftAt, rightAt, by);
    SetFlag<HardEvent::M_FIX>(0);
    WaitFlag<HardEvent::M_FIX>(0);
    FixpipeParamsV220 leaving(16, 16, 16, 16, false);
    Fixpipe<float, float, CFG_ROW_MAJOR>(to, sums, leaving);
  }
};
