// One product of two matrices of 16 by 16, by the library's Matmul, on the first core.
class Kernel {
 public:
  __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, GM_ADDR out, GM_ADDR workspace, GM_ADDR tiling) {
    TCubeTiling cube{};
    cube.usedCoreNum = 1;
    cube.M = cube.N = cube.Ka = cube.Kb = SIDE;
    cube.singleCoreM = cube.singleCoreN = cube.singleCoreK = SIDE;
    cube.baseM = cube.baseN = cube.baseK = SIDE;
    GlobalTensor<float> left, right, to;
    left.SetGlobalBuffer((__gm__ float*)x);
    right.SetGlobalBuffer((__gm__ float*)y);
    to.SetGlobalBuffer((__gm__ float*)out);
    TPipe pipe;
    using Type = MatmulType<TPosition::GM, CubeFormat::ND, float>;
    Matmul<Type, Type, Type> matmul;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), matmul, &cube);
    if (GetBlockIdx() > 0) return;
    matmul.SetTensorA(left);
    matmul.SetTensorB(right);
    matmul.IterateAll(to);
    matmul.End();
  }

 private:
  static constexpr int32_t SIDE = 16;
};
