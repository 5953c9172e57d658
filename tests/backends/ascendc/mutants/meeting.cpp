// Blocks write to the workspace, wait for each other, and read what the next one wrote.
class Kernel {
 public:
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, GM_ADDR out, GM_ADDR workspace, GM_ADDR tiling) {
    uint32_t first = GetBlockIdx() * LENGTH, next = (GetBlockIdx() + 1) % BLOCKS * LENGTH;
    GlobalTensor<float> xGm, outGm, between;
    xGm.SetGlobalBuffer((__gm__ float*)x + first, LENGTH);
    outGm.SetGlobalBuffer((__gm__ float*)out + first, LENGTH);
    between.SetGlobalBuffer((__gm__ float*)workspace, BLOCKS * LENGTH);
    TPipe pipe;
    TQueBind<QuePosition::VECIN, QuePosition::VECOUT, 1> queue;
    pipe.InitBuffer(queue, 1, LENGTH * sizeof(float));
    Move(queue, between[first], xGm);
    PipeBarrier<PIPE_ALL>();
    SyncAll();
    Move(queue, outGm, between[next]);
  }

 private:
  template <class Queue> __aicore__ inline void Move(Queue& queue, const GlobalTensor<float>& to, const GlobalTensor<float>& from) {
    LocalTensor<float> tensor = queue.template AllocTensor<float>();
    DataCopy(tensor, from, LENGTH);
    queue.EnQue(tensor);
    tensor = queue.template DeQue<float>();
    DataCopy(to, tensor, LENGTH);
    queue.FreeTensor(tensor);
  }
};
