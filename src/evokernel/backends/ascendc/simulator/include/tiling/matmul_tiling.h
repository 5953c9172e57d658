// Splits a matrix product over cores and into base blocks. The heuristic differs from CANN's: every split that fits into the memories is legal.
#pragma once
#include <algorithm>
#include <cstdint>

#include "kernel_tiling/kernel_tiling.h"
#include "tiling/platform/platform_ascendc.h"

namespace matmul_tiling {

enum class DataType : int32_t {
  DT_FLOAT = 0,
  DT_FLOAT16 = 1,
  DT_INT8 = 2,
  DT_INT32 = 3,
  DT_UINT8 = 4,
  DT_INT16 = 6,
  DT_BF16 = 27,
  DT_INT4 = 29,
  DT_BFLOAT16 = 33
};
enum class TPosition : int32_t { GM, A1, A2, B1, B2, C1, C2, CO1, CO2, VECIN, VECOUT, VECCALC, LCM = VECCALC, SPM, SHM = SPM, TSCM, MAX };
enum class CubeFormat : int32_t { ND = 0, NZ, ZN, ZZ, NN, ND_ALIGN, SCALAR, VECTOR };
enum class MatrixTraverse : int32_t { NOSET = 0, FIRSTM = 1, FIRSTN = 2 };
enum class MatrixMadType : int32_t { NORMAL = 0, HF32 = 1 };
enum class ScheduleType : int32_t { INNER_PRODUCT = 0, OUTER_PRODUCT = 1 };
enum class DequantType : int32_t { SCALAR = 0, TENSOR = 1 };

struct PlatformInfo {
  platform_ascendc::SocVersion socVersion = platform_ascendc::SocVersion::ASCEND910B;
  uint64_t l1Size = 0, l0CSize = 0, ubSize = 0, l0ASize = 0, l0BSize = 0;
};

class MatmulApiTilingBase {
 public:
  MatmulApiTilingBase() = default;
  explicit MatmulApiTilingBase(const platform_ascendc::PlatformAscendC&) {}
  explicit MatmulApiTilingBase(const PlatformInfo&) {}
  virtual ~MatmulApiTilingBase() = default;

  int32_t SetAType(TPosition, CubeFormat, DataType type, bool = false) {
    elementBytes_ = bytesOf(type);
    return 0;
  }
  int32_t SetBType(TPosition, CubeFormat, DataType type, bool = false) {
    elementBytes_ = std::max(elementBytes_, bytesOf(type));
    return 0;
  }
  int32_t SetCType(TPosition, CubeFormat, DataType) { return 0; }
  int32_t SetBiasType(TPosition, CubeFormat, DataType) { return 0; }
  int32_t SetDequantType(DequantType) { return 0; }
  int32_t SetShape(int32_t m, int32_t n, int32_t k) {
    m_ = m;
    n_ = n;
    k_ = k;
    return 0;
  }
  int32_t SetOrgShape(int32_t m, int32_t n, int32_t k) { return SetOrgShape(m, n, k, k); }
  int32_t SetOrgShape(int32_t m, int32_t n, int32_t ka, int32_t kb) {
    wholeM_ = m;
    wholeN_ = n;
    wholeKa_ = ka;
    wholeKb_ = kb;
    return 0;
  }
  int32_t SetSingleShape(int32_t m = -1, int32_t n = -1, int32_t k = -1) {
    singleM_ = m;
    singleN_ = n;
    singleK_ = k;
    return 0;
  }
  int32_t SetSingleRange(int32_t = -1, int32_t = -1, int32_t = -1, int32_t = -1, int32_t = -1, int32_t = -1) { return 0; }
  int32_t SetFixSplit(int32_t m = -1, int32_t n = -1, int32_t k = -1) {
    baseM_ = m;
    baseN_ = n;
    baseK_ = k;
    return 0;
  }
  int32_t SetAlignSplit(int32_t m, int32_t n, int32_t) {
    alignM_ = std::max(m, 1);
    alignN_ = std::max(n, 1);
    return 0;
  }
  int32_t SetDim(int32_t cores) {
    cores_ = std::max(cores, 1);
    return 0;
  }
  int32_t EnableMultiCoreSplitK(bool) { return 0; }
  int32_t EnableBias(bool bias = false) { return SetBias(bias); }
  int32_t SetBias(bool bias = false) {
    bias_ = bias;
    return 0;
  }
  int32_t SetBufferSpace(int32_t = -1, int32_t = -1, int32_t = -1, int32_t = -1) { return 0; }
  int32_t SetTraverse(MatrixTraverse traverse) {
    firstN_ = traverse == MatrixTraverse::FIRSTN;
    return 0;
  }
  int32_t SetMadType(MatrixMadType) { return 0; }
  int32_t SetSplitRange(int32_t = -1, int32_t = -1, int32_t = -1, int32_t = -1, int32_t = -1, int32_t = -1) { return 0; }
  int32_t SetDoubleBuffer(bool, bool, bool, bool, bool = true, bool = true) { return 0; }
  void SetMatmulConfigParams(int32_t = 1, bool = false, ScheduleType = ScheduleType::INNER_PRODUCT,
                             MatrixTraverse = MatrixTraverse::NOSET, bool = false) {}
  int32_t SetALayout(int32_t b, int32_t s, int32_t n, int32_t g, int32_t d) { return layout(a_, b, s, n, g, d); }
  int32_t SetBLayout(int32_t b, int32_t s, int32_t n, int32_t g, int32_t d) { return layout(b_, b, s, n, g, d); }
  int32_t SetCLayout(int32_t b, int32_t s, int32_t n, int32_t g, int32_t d) { return layout(c_, b, s, n, g, d); }
  int32_t SetBatchNum(int32_t batch) {
    batch_ = batch;
    return 0;
  }
  int32_t SetBatchInfoForNormal(int32_t batchA, int32_t batchB, int32_t m, int32_t n, int32_t k) {
    batch_ = std::max(batchA, batchB);
    SetOrgShape(m, n, k);
    return SetShape(m, n, k);
  }
  int32_t GetBaseM() const { return baseM_; }
  int32_t GetBaseN() const { return baseN_; }
  int32_t GetBaseK() const { return baseK_; }
  int32_t GetCoreNum(int32_t& cores, int32_t& m, int32_t& n) const {
    cores = usedM_ * usedN_;
    m = usedM_;
    n = usedN_;
    return 0;
  }

  // Returns 0, or -1 if sizes are missing or the requested base block does not fit.
  int64_t GetTiling(AscendC::tiling::TCubeTiling& tiling) {
    if (m_ <= 0 || n_ <= 0 || k_ <= 0) return -1;
    if (wholeM_ <= 0) SetOrgShape(m_, n_, k_);
    if (!chooseBase()) return -1;
    chooseGrid();
    fill(tiling);
    return 0;
  }

 private:
  static constexpr int CUBE = 16;
  static constexpr int LARGEST_BASE = 128;
  static int bytesOf(DataType type) {
    if (type == DataType::DT_FLOAT || type == DataType::DT_INT32) return 4;
    return type == DataType::DT_INT8 || type == DataType::DT_UINT8 || type == DataType::DT_INT4 ? 1 : 2;
  }
  static int up(int value, int unit) { return (value + unit - 1) / unit * unit; }
  static int pieces(int value, int size) { return (value + size - 1) / size; }
  static int layout(int32_t (&kept)[5], int32_t b, int32_t s, int32_t n, int32_t g, int32_t d) {
    const int32_t given[5] = {b, s, n, g, d};
    std::copy(given, given + 5, kept);
    return 0;
  }

  // The base block: its float32 sums fit into L0C, and each operand fits into one half of L0A or L0B.
  bool chooseBase() {
    const simulator::Chip& chip = simulator::chip();
    int m = baseM_ > 0 ? baseM_ : std::min(LARGEST_BASE, up(m_, CUBE));
    int n = baseN_ > 0 ? baseN_ : std::min(LARGEST_BASE, up(n_, CUBE));
    if (double(m) * n * sizeof(float) > chip.l0c_bytes) return false;
    int half = static_cast<int>(chip.l0a_bytes) / 2 / elementBytes_;
    int room = half / std::max(m, n) / CUBE * CUBE;
    int k = baseK_ > 0 ? baseK_ : std::max(CUBE, std::min(up(k_, CUBE), room));
    baseM_ = m;
    baseN_ = n;
    baseK_ = k;
    return true;
  }

  // Selects the core grid whose busiest core has the fewest base blocks; among equal grids the squarest.
  void chooseGrid() {
    int rows = pieces(m_, baseM_), columns = pieces(n_, baseN_);
    double best = 1e30;
    for (int m = 1; m <= cores_; m++) {
      int usedM = std::min(m, rows), usedN = std::min(cores_ / m, columns);
      double cost = double(pieces(rows, usedM)) * pieces(columns, usedN) + 1e-3 * std::abs(usedM - usedN);
      if (cost < best) {
        best = cost;
        usedM_ = usedM;
        usedN_ = usedN;
      }
    }
    if (singleM_ <= 0) singleM_ = std::min(m_, up(pieces(rows, usedM_) * baseM_, alignM_));
    if (singleN_ <= 0) singleN_ = std::min(n_, up(pieces(columns, usedN_) * baseN_, alignN_));
    if (singleK_ <= 0) singleK_ = k_;
    usedM_ = pieces(m_, singleM_);
    usedN_ = pieces(n_, singleN_);
  }

  // Base blocks of each factor that a copy fetches along the depth: two copies fit into L1.
  int blocksInL1() const {
    int each = 1, needed = pieces(singleK_, baseK_);
    while (each < needed && 4.0 * each * (baseM_ + baseN_) * baseK_ * elementBytes_ <= simulator::chip().l1_bytes) each *= 2;
    return each;
  }

  void fill(AscendC::tiling::TCubeTiling& tiling) const {
    tiling.usedCoreNum = usedM_ * usedN_;
    tiling.M = wholeM_;
    tiling.N = wholeN_;
    tiling.Ka = wholeKa_;
    tiling.Kb = wholeKb_;
    tiling.singleCoreM = singleM_;
    tiling.singleCoreN = singleN_;
    tiling.singleCoreK = singleK_;
    tiling.baseM = baseM_;
    tiling.baseN = baseN_;
    tiling.baseK = baseK_;
    tiling.stepM = tiling.stepN = 1;
    tiling.stepKa = tiling.stepKb = blocksInL1();
    tiling.depthA1 = tiling.depthB1 = 2 * tiling.stepKa;
    tiling.isBias = bias_;
    tiling.iterateOrder = firstN_;
    tiling.dbL0A = tiling.dbL0B = 2;
    tiling.dbL0C = 1;
    tiling.batchM = tiling.batchN = tiling.singleBatchM = tiling.singleBatchN = 1;
    tiling.BatchNum = batch_;
    tiling.ALayoutInfoB = a_[0];
    tiling.ALayoutInfoS = a_[1];
    tiling.ALayoutInfoN = a_[2];
    tiling.ALayoutInfoG = a_[3];
    tiling.ALayoutInfoD = a_[4];
    tiling.BLayoutInfoB = b_[0];
    tiling.BLayoutInfoS = b_[1];
    tiling.BLayoutInfoN = b_[2];
    tiling.BLayoutInfoG = b_[3];
    tiling.BLayoutInfoD = b_[4];
    tiling.CLayoutInfoB = c_[0];
    tiling.CLayoutInfoS1 = c_[1];
    tiling.CLayoutInfoN = c_[2];
    tiling.CLayoutInfoG = c_[3];
    tiling.CLayoutInfoS2 = c_[4];
  }

  int elementBytes_ = 2, cores_ = 1, batch_ = 0;
  int m_ = -1, n_ = -1, k_ = -1;
  int wholeM_ = -1, wholeN_ = -1, wholeKa_ = -1, wholeKb_ = -1;
  int singleM_ = -1, singleN_ = -1, singleK_ = -1;
  int baseM_ = -1, baseN_ = -1, baseK_ = -1;
  int alignM_ = 1, alignN_ = 1, usedM_ = 1, usedN_ = 1;
  int32_t a_[5] = {}, b_[5] = {}, c_[5] = {};
  bool bias_ = false, firstN_ = false;
};

class MatmulApiTiling : public MatmulApiTilingBase {
 public:
  using MatmulApiTilingBase::MatmulApiTilingBase;
};
class MultiCoreMatmulTiling : public MatmulApiTilingBase {
 public:
  using MatmulApiTilingBase::MatmulApiTilingBase;
};
class BatchMatmulTiling : public MatmulApiTilingBase {
 public:
  using MatmulApiTilingBase::MatmulApiTilingBase;
};

}  // namespace matmul_tiling
