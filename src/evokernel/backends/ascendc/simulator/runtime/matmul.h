// The library's Matmul: a vector core requests the product of two matrices from its cube core, complete or tile by tile.
// The simulator does not execute the intermediate steps of the cube (L1, L0); matmul_cost.h has their time.
#pragma once
#include "../include/kernel_tiling/kernel_tiling.h"
#include "matmul_config.h"
#include "matmul_cost.h"
#include "matrices.h"
#include "queues.h"
#include "scale.h"

namespace AscendC {

struct MatrixOffset {
  int32_t offset = 0, row = 0, col = 0, height = 0, width = 0;
};

template <TPosition POSITION, CubeFormat FORMAT, typename TYPE, bool ISTRANS = false, LayoutMode LAYOUT = LayoutMode::NONE,
          bool IBSHARE = false, TPosition SRCPOS = TPosition::GM>
struct MatmulType {
  static constexpr TPosition pos = POSITION, srcPos = SRCPOS;
  static constexpr CubeFormat format = FORMAT;
  using T = TYPE;
  static constexpr bool isTrans = ISTRANS, ibShare = IBSHARE;
  static constexpr LayoutMode layout = LAYOUT;
};

template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const auto& MM_CFG = CFG_NORM,
          class MM_CB = MatmulCallBackFunc<nullptr, nullptr, nullptr>>
class MatmulImpl {
 public:
  using AType = A_TYPE;
  using BType = B_TYPE;
  using CType = C_TYPE;
  using BiasType = BIAS_TYPE;
  using SrcT = typename A_TYPE::T;
  using SrcAT = typename A_TYPE::T;
  using SrcBT = typename B_TYPE::T;
  using DstT = typename C_TYPE::T;
  using BiasT = typename BIAS_TYPE::T;
  using TCubeTiling = tiling::TCubeTiling;

  // ---- operands and shapes
  void Init(const TCubeTiling* cubeTiling, TPipe* = nullptr) {
    if (!cubeTiling) return;
    shape = *cubeTiling;
    if (!ready) simulator::core->startLibrary();
    ready = true;
    if (shape.singleCoreM <= 0 || shape.singleCoreN <= 0 || shape.singleCoreK <= 0 || shape.baseM <= 0 || shape.baseN <= 0)
      simulator::endRun("E-MM-TILING",
                 "Matmul: the tiling has %d x %d x %d for one core and tiles of %d x %d: GetTiling failed, or was not called",
                 shape.singleCoreM, shape.singleCoreN, shape.singleCoreK, shape.baseM, shape.baseN);
    End();
    SetOrgShape(shape.M, shape.N, shape.Ka, shape.Kb);
  }
  void SetOrgShape(int orgM, int orgN, int orgK) { SetOrgShape(orgM, orgN, orgK, orgK); }
  void SetOrgShape(int orgM, int orgN, int orgKa, int orgKb, int orgKc = 0) {
    wholeM = orgM;
    wholeN = orgN;
    wholeKa = orgKa;
    wholeKb = orgKb;
    wholeNc = orgKc > 0 ? orgKc : orgN;
  }
  void SetSingleShape(int singleM, int singleN, int singleK) { SetTail(singleM, singleN, singleK); }
  void SetTail(int tailM = -1, int tailN = -1, int tailK = -1) {
    if (tailM > 0) m = tailM;
    if (tailN > 0) n = tailN;
    if (tailK > 0) k = tailK;
    restart();
  }
  void SetTensorA(const GlobalTensor<SrcAT>& gm, bool isTransposeA = false) {
    leftGm = gm;
    take(left, GM, isTransposeA);
  }
  void SetTensorA(const LocalTensor<SrcAT>& local, bool isTransposeA = false) {
    leftLocal = local;
    take(left, LOCAL, isTransposeA);
  }
  void SetTensorA(SrcAT scalar) {
    leftScalar = scalar;
    take(left, SCALAR, false);
  }
  void SetTensorB(const GlobalTensor<SrcBT>& gm, bool isTransposeB = false) {
    rightGm = gm;
    take(right, GM, isTransposeB);
  }
  void SetTensorB(const LocalTensor<SrcBT>& local, bool isTransposeB = false) {
    rightLocal = local;
    take(right, LOCAL, isTransposeB);
  }
  void SetTensorB(SrcBT scalar) {
    rightScalar = scalar;
    take(right, SCALAR, false);
  }
  void SetBias(const GlobalTensor<BiasT>& gm) {
    biasGm = gm;
    bias = GM;
  }
  void SetBias(const LocalTensor<BiasT>& local) {
    biasLocal = local;
    bias = LOCAL;
  }
  void DisableBias() {
    bias = NOWHERE;
    noBias = true;
  }
  void ClearBias() { DisableBias(); }
  void SetQuantScalar(const uint64_t quantScalar) {
    quantBits = quantScalar;
    quant = SCALAR;
  }
  void SetQuantVector(const GlobalTensor<uint64_t>& given) {
    quantGm = given;
    quant = GM;
  }
  void SetQuantVector(const LocalTensor<uint64_t>& given) {
    quantLocal = given;
    quant = LOCAL;
  }
  void SetAntiQuantScalar(const SrcT, const SrcT) { simulator::endRun("E-UNSUPPORTED", "Matmul.SetAntiQuantScalar"); }
  void SetHF32(bool = false, int32_t = 0) {}
  void SetSubBlockIdx(uint8_t index) { subBlock = index; }
  uint8_t GetSubBlockIdx() const { return subBlock; }
  void SetBatchNum(int32_t, int32_t) {}
  template <class T> void SetWorkspace(const T* address, int bytes) {
    workspace.SetGlobalBuffer(reinterpret_cast<uint8_t*>(const_cast<T*>(address)), uint64_t(bytes));
  }
  template <class T> void SetWorkspace(GlobalTensor<T>& given) { SetWorkspace(given.GetPhyAddr(), int(given.GetSize() * sizeof(T))); }
  void SetLocalWorkspace(const LocalTensor<uint8_t>& given) {
    if (!given.allocated) simulator::endRun("E-UB-NULL", "Matmul.SetLocalWorkspace: the LocalTensor has no memory (it was never allocated)");
  }
  template <class T> void SetSelfDefineData(T) {}
  void SetUserDefInfo(const uint64_t) {}
  void End() {
    waitFor();
    m = shape.singleCoreM;
    n = shape.singleCoreN;
    k = shape.singleCoreK;
    restart();  // the tensors stay set: kernels set a constant operand once and call End in the loop
  }

  // ---- the complete product
  template <bool sync = true>
  void IterateAll(const GlobalTensor<DstT>& gm, uint8_t enAtomic = 0, bool enSequentialWrite = false, bool waitIterateAll = false,
                  bool fakeMsg = false) {
    (void)enSequentialWrite, (void)waitIterateAll, (void)fakeMsg;
    begin("Matmul.IterateAll");
    work(0, 0, m, n, false);
    storeGm(gm, outputLayout(), 0, 0, m, n, enAtomic, "Matmul.IterateAll");
    charge(m, n, sync);
  }
  template <bool sync = true>
  void IterateAll(const LocalTensor<DstT>& local, uint8_t enAtomic = 0, bool enSequentialWrite = false, bool waitIterateAll = false) {
    (void)enSequentialWrite, (void)waitIterateAll;
    begin("Matmul.IterateAll");
    work(0, 0, m, n, false);
    charge(m, n, sync);
    storeLocal(local, localLayout(m, n), m, n, enAtomic, "Matmul.IterateAll");
  }
  void WaitIterateAll() { waitFor(); }
  void WaitIterateBatch() { waitFor(); }

  // ---- tile by tile
  template <bool sync = true> bool Iterate(bool enPartialSum = false) {
    begin("Matmul.Iterate");
    int tilesM = (m + shape.baseM - 1) / shape.baseM, tilesN = (n + shape.baseN - 1) / shape.baseN;
    int next = step + 1;
    if (next >= tilesM * tilesN) {
      step = -1;
      return false;
    }
    step = next;
    bool alongM = shape.iterateOrder == 0;  // first along the rows, then the next columns
    tile.row = (alongM ? step % tilesM : step / tilesN) * shape.baseM;
    tile.col = (alongM ? step / tilesM : step % tilesN) * shape.baseN;
    tile.height = std::min(shape.baseM, m - tile.row);
    tile.width = std::min(shape.baseN, n - tile.col);
    tile.offset = tile.row * int(wholeNc) + tile.col;
    work(tile.row, tile.col, tile.height, tile.width, enPartialSum);
    charge(tile.height, tile.width, sync);
    return true;
  }
  template <bool sync = true, typename T> bool Iterate(bool enPartialSum, const LocalTensor<T>&) { return Iterate<sync>(enPartialSum); }
  template <bool sync = true> void GetTensorC(const GlobalTensor<DstT>& gm, uint8_t enAtomic = 0, bool enSequentialWrite = false) {
    hasTile("Matmul.GetTensorC");
    simulator::Layout to = outputLayout();
    if (enSequentialWrite) to.stride = to.fractal ? simulator::roundUp(tile.height, 16) : shape.baseN;
    int row = enSequentialWrite ? 0 : tile.row, column = enSequentialWrite ? 0 : tile.col;
    storeGm(gm, to, row, column, tile.height, tile.width, enAtomic, "Matmul.GetTensorC");
    if (sync) waitFor();
  }
  template <bool sync = true, bool doPad = false>
  void GetTensorC(const LocalTensor<DstT>& local, uint8_t enAtomic = 0, bool enSequentialWrite = false, uint32_t height = 0,
                  uint32_t width = 0, uint32_t srcGap = 0, uint32_t dstGap = 0) {
    (void)enSequentialWrite, (void)height, (void)width, (void)srcGap, (void)dstGap;  // local memory always receives one tile
    hasTile("Matmul.GetTensorC");
    waitFor();
    storeLocal(local, localLayout(shape.baseM, shape.baseN), tile.height, tile.width, enAtomic, "Matmul.GetTensorC");
  }
  template <bool sync = true>
  void GetTensorC(const GlobalTensor<DstT>& gm, const LocalTensor<DstT>& local, uint8_t enAtomic = 0, bool enSequentialWrite = false) {
    GetTensorC<sync>(gm, enAtomic, enSequentialWrite);
    GetTensorC<sync>(local, enAtomic, enSequentialWrite);
  }
  // The tile is in the workspace, where tiles are contiguous.
  template <bool sync = true> GlobalTensor<DstT> GetTensorC(uint8_t enAtomic = 0, bool enSequentialWrite = false) {
    (void)enSequentialWrite;
    hasTile("Matmul.GetTensorC");
    if (!workspace.region) simulator::endRun("E-MM-WORKSPACE", "Matmul.GetTensorC into the workspace: the kernel did not call SetWorkspace");
    GlobalTensor<DstT> into;
    into.SetGlobalBuffer(reinterpret_cast<DstT*>(workspace.GetPhyAddr()) + int64_t(step) * shape.baseM * shape.baseN);
    simulator::Layout to;
    to.stride = shape.baseN;
    storeGm(into, to, 0, 0, tile.height, tile.width, enAtomic, "Matmul.GetTensorC");
    if (sync) waitFor();
    return into;
  }
  void AsyncGetTensorC(const LocalTensor<DstT>& local) { GetTensorC<false>(local); }
  void WaitGetTensorC() { waitFor(); }
  template <bool isTurnOnDebug = true> MatrixOffset GetOffsetC() const { return tile; }

  // ---- several products of the same size in contiguous memory
  template <bool sync = true, bool waitIterateBatch = false>
  void IterateBatch(const GlobalTensor<DstT>& gm, uint32_t batchA, uint32_t batchB, bool enSequentialWrite,
                    const uint32_t matrixStrideA = 0, const uint32_t matrixStrideB = 0, const uint32_t matrixStrideC = 0,
                    const bool enPartialSum = false, const uint8_t enAtomic = 0) {
    (void)enSequentialWrite, (void)enPartialSum;
    begin("Matmul.IterateBatch");
    if (left.from != GM || right.from != GM) simulator::endRun("E-UNSUPPORTED", "Matmul.IterateBatch supports only matrices in global memory");
    uint32_t number = std::max(batchA, batchB);
    if (!batchA || !batchB || number % batchA || number % batchB)
      simulator::endRun("E-MM-BATCH", "Matmul.IterateBatch: the batch sizes are %u and %u, but one must be a multiple of the other", batchA, batchB);
    int64_t strideA = matrixStrideA ? matrixStrideA : int64_t(m) * k, strideB = matrixStrideB ? matrixStrideB : int64_t(k) * n;
    int64_t strideC = matrixStrideC ? matrixStrideC : int64_t(m) * n;
    GlobalTensor<SrcAT> firstA = leftGm;
    GlobalTensor<SrcBT> firstB = rightGm;
    for (uint32_t i = 0; i < number; i++) {
      leftGm = firstA[int64_t(i / (number / batchA)) * strideA];
      rightGm = firstB[int64_t(i / (number / batchB)) * strideB];
      work(0, 0, m, n, false);
      storeGm(gm[int64_t(i) * strideC], outputLayout(), 0, 0, m, n, enAtomic, "Matmul.IterateBatch");
      charge(m, n, false);
    }
    leftGm = firstA;
    rightGm = firstB;
    if (sync) waitFor();
  }
  template <bool sync = true, bool waitIterateBatch = false>
  void IterateNBatch(const uint32_t batchLoop, uint32_t, uint32_t, bool, const uint32_t = 0, const uint32_t = 0, const uint32_t = 0,
                     const bool = false, const uint8_t = 0) {
    simulator::endRun("E-UNSUPPORTED", "Matmul.IterateNBatch with %u loops is not supported", batchLoop);
  }

 private:
  enum Where { NOWHERE, GM, LOCAL, SCALAR };
  struct Side {
    Where from = NOWHERE;
    bool transposed = false;
  };
  using Sum = typename simulator::Accumulator<SrcAT>::Type;

  TCubeTiling shape;
  bool ready = false, noBias = false;
  int m = 0, n = 0, k = 0, step = -1;
  int64_t wholeM = 0, wholeN = 0, wholeKa = 0, wholeKb = 0, wholeNc = 0;
  Side left, right;
  Where bias = NOWHERE, quant = NOWHERE;
  GlobalTensor<SrcAT> leftGm;
  GlobalTensor<SrcBT> rightGm;
  LocalTensor<SrcAT> leftLocal;
  LocalTensor<SrcBT> rightLocal;
  SrcAT leftScalar = SrcAT(0);
  SrcBT rightScalar = SrcBT(0);
  GlobalTensor<BiasT> biasGm;
  LocalTensor<BiasT> biasLocal;
  uint64_t quantBits = 0;
  GlobalTensor<uint64_t> quantGm;
  LocalTensor<uint64_t> quantLocal;
  GlobalTensor<uint8_t> workspace;
  uint8_t subBlock = 0;
  MatrixOffset tile;
  std::vector<Sum> sums;  // of the last computed tile
  double done = 0;        // completion time of the cube
  uint32_t doneSlot = 0;  // its number in the record

#include "matmul_work.h"
};

template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const auto& MM_CFG = CFG_NORM,
          class MM_CB = MatmulCallBackFunc<nullptr, nullptr, nullptr>>
using Matmul = MatmulImpl<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE, MM_CFG, MM_CB>;

}  // namespace AscendC

namespace simulator {

// It divides local memory between the vector and the cube cores, so no buffer may be allocated before.
inline void beforeBuffers() {
  needsSystemWorkspace("REGIST_MATMUL_OBJ");
  if (core->buffers) reportViolation("E-MM-ORDER", "REGIST_MATMUL_OBJ is called after InitBuffer has allocated %u buffers", core->buffers);
}

// REGIST_MATMUL_OBJ takes objects, each optionally followed by its tiling.
inline void registerMatmul() {}
template <class Object> inline void registerMatmul(Object&) {}
template <class Object, class Next, class... Rest> inline void registerMatmul(Object& object, Next&& next, Rest&&... rest) {
  if constexpr (std::is_convertible<Next, const void*>::value) {  // also `const TCubeTiling* __restrict`
    object.Init(next);
    registerMatmul(std::forward<Rest>(rest)...);
  } else {
    registerMatmul(next, std::forward<Rest>(rest)...);
  }
}

}  // namespace simulator

namespace matmul = AscendC;

// CANN declares these outside of its namespace.
using AscendC::CFG_MDL;
using AscendC::CFG_NORM;
using AscendC::CubeFormat;
using AscendC::LayoutMode;
using AscendC::MatmulConfig;
using AscendC::GetBasicConfig;
using AscendC::GetIBShareNormConfig;
using AscendC::GetMDLConfig;
using AscendC::GetNormalConfig;
using AscendC::GetSpecialBasicConfig;
using AscendC::GetSpecialMDLConfig;
using AscendC::MatmulShapeParams;
using AscendC::MM_CFG_BB;

#define REGIST_MATMUL_OBJ(pipe, workspace, ...) \
  do {                                          \
    (void)(pipe);                               \
    (void)(workspace);                          \
    ::simulator::beforeBuffers();                    \
    ::simulator::registerMatmul(__VA_ARGS__);        \
  } while (0)
#define REGIST_MATMUL_OBJ_STATIC REGIST_MATMUL_OBJ
#define REGIST_CUBE_OBJ REGIST_MATMUL_OBJ
