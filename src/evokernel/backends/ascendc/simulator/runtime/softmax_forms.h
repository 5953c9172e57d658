// The public overloads of the softmax functions. With half, sums and maxima may be float.
#pragma once

namespace AscendC {

#define SIMULATOR_ROWS(WHAT) simulator::rowsOf(src, tiling, info, NZ, WHAT)
#define SIMULATOR_SOFTMAX_TYPES                                                                                                                \
  template <typename T, bool isReuseSource = false, bool isBasicBlock = false, bool NZ = false, const auto& config = SOFTMAX_DEFAULT_CFG> \
  inline void
#define SIMULATOR_SINGLE (config.mode == SoftmaxMode::SOFTMAX_OUTPUT_WITHOUT_BRC)

// ---- SoftMax
#define SIMULATOR_SOFTMAX(T, U)                                                                                                               \
  SIMULATOR_SOFTMAX_TYPES SoftMax(const LocalTensor<T>& dst, const LocalTensor<U>& sum, const LocalTensor<U>& max, const LocalTensor<T>& src, \
                             const SoftMaxTiling& tiling, const SoftMaxShapeInfo& info = {}) {                                           \
    simulator::Rows rows = SIMULATOR_ROWS("SoftMax");                                                                                              \
    simulator::scratch(simulator::rowScratch(rows), "SoftMax");                                                                                    \
    simulator::PerRow<U> sums(sum, SIMULATOR_SINGLE), maxima(max, SIMULATOR_SINGLE);                                                                    \
    simulator::softmax<T, U>(dst, &sums, &maxima, src, rows);                                                                                 \
  }                                                                                                                                      \
  SIMULATOR_SOFTMAX_TYPES SoftMax(const LocalTensor<T>& dst, const LocalTensor<U>& sum, const LocalTensor<U>& max, const LocalTensor<T>& src, \
                             const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling,                                   \
                             const SoftMaxShapeInfo& info = {}) {                                                                        \
    simulator::Rows rows = SIMULATOR_ROWS("SoftMax");                                                                                              \
    simulator::scratch(sharedTmpBuffer, simulator::rowScratch(rows), "SoftMax");                                                                   \
    simulator::PerRow<U> sums(sum, SIMULATOR_SINGLE), maxima(max, SIMULATOR_SINGLE);                                                                    \
    simulator::softmax<T, U>(dst, &sums, &maxima, src, rows);                                                                                 \
  }                                                                                                                                      \
  SIMULATOR_SOFTMAX_TYPES SimpleSoftMax(const LocalTensor<T>& dst, const LocalTensor<U>& sum, const LocalTensor<U>& max,                      \
                                   const LocalTensor<T>& src, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& info = {}) {          \
    simulator::Rows rows = SIMULATOR_ROWS("SimpleSoftMax");                                                                                        \
    simulator::scratch(simulator::rowScratch(rows), "SimpleSoftMax");                                                                              \
    simulator::simpleSoftmax<T, U>(dst, {sum, SIMULATOR_SINGLE}, {max, SIMULATOR_SINGLE}, src, rows);                                                   \
  }                                                                                                                                      \
  SIMULATOR_SOFTMAX_TYPES SimpleSoftMax(const LocalTensor<T>& dst, const LocalTensor<U>& sum, const LocalTensor<U>& max,                      \
                                   const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling,  \
                                   const SoftMaxShapeInfo& info = {}) {                                                                  \
    simulator::Rows rows = SIMULATOR_ROWS("SimpleSoftMax");                                                                                        \
    simulator::scratch(sharedTmpBuffer, simulator::rowScratch(rows), "SimpleSoftMax");                                                             \
    simulator::simpleSoftmax<T, U>(dst, {sum, SIMULATOR_SINGLE}, {max, SIMULATOR_SINGLE}, src, rows);                                                   \
  }
SIMULATOR_SOFTMAX(T, T)
SIMULATOR_SOFTMAX(half, float)
#undef SIMULATOR_SOFTMAX
#undef SIMULATOR_SOFTMAX_TYPES

template <typename T, bool isReuseSource = false, bool isBasicBlock = false, const auto& config = SOFTMAX_DEFAULT_CFG>
inline void SoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& info = {}) {
  simulator::Rows rows = simulator::rowsOf(src, tiling, info, false, "SoftMax");
  simulator::scratch(simulator::rowScratch(rows), "SoftMax");
  simulator::softmax<T, T>(dst, nullptr, nullptr, src, rows);
}
template <typename T, bool isReuseSource = false, bool isBasicBlock = false, const auto& config = SOFTMAX_DEFAULT_CFG>
inline void SoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
                    const SoftMaxTiling& tiling, const SoftMaxShapeInfo& info = {}) {
  simulator::Rows rows = simulator::rowsOf(src, tiling, info, false, "SoftMax");
  simulator::scratch(sharedTmpBuffer, simulator::rowScratch(rows), "SoftMax");
  simulator::softmax<T, T>(dst, nullptr, nullptr, src, rows);
}

// ---- SoftmaxFlash, SoftmaxFlashV2
// The tiling of SoftmaxFlashV2, computed by the kernel: as many rows at a time as the scratch memory holds. CANN may split the rows otherwise; the
// result is the same.
inline constexpr SoftMaxTiling SoftMaxFlashV2TilingFuncImpl(const uint32_t srcM, const uint32_t srcK, const uint32_t, const uint32_t typeSizeOfSums,
                                                            const uint32_t scratchElements, const bool isUpdate = false,
                                                            const bool isBasicBlock = false, const bool = false) {
  SoftMaxTiling tiling{};
  uint32_t columns = simulator::BLOCK / typeSizeOfSums;
  uint32_t perRow = isBasicBlock ? srcK + 2 * columns : (isUpdate ? 2 : 1) * srcK + 3 * columns;
  uint32_t rows = scratchElements / perRow;
  rows = rows < 1 ? 1 : rows > srcM ? srcM : rows;
  tiling.srcM = srcM;
  tiling.srcK = srcK;
  tiling.srcSize = srcM * srcK;
  tiling.outMaxM = srcM;
  tiling.outMaxK = columns;
  tiling.outMaxSize = srcM * columns;
  tiling.splitM = rows;
  tiling.splitK = srcK;
  tiling.splitSize = rows * srcK;
  tiling.reduceM = rows;
  tiling.reduceK = columns;
  tiling.reduceSize = rows * columns;
  tiling.rangeM = srcM / rows;
  tiling.tailM = srcM % rows;
  tiling.tailSplitSize = tiling.tailM * srcK;
  tiling.tailReduceSize = tiling.tailM * columns;
  return tiling;
}
#define SIMULATOR_FLASH(T, U)                                                                                                               \
  template <typename T0, bool isReuseSource = false, bool isBasicBlock = false, bool NZ = false>                                       \
  inline void SoftmaxFlash(const LocalTensor<T>& dst, const LocalTensor<U>& sum, const LocalTensor<U>& max, const LocalTensor<T>& src, \
                           const LocalTensor<T>& expMax, const LocalTensor<U>& inSum, const LocalTensor<U>& inMax,                     \
                           const SoftMaxTiling& tiling, bool isUpdate = false, const SoftMaxShapeInfo& info = {}) {                    \
    simulator::Rows rows = SIMULATOR_ROWS("SoftmaxFlash");                                                                                       \
    simulator::scratch(simulator::rowScratch(rows), "SoftmaxFlash");                                                                             \
    simulator::Flash<T, U>{dst, sum, max, src, expMax, inSum, inMax}(rows, isUpdate, true, "SoftmaxFlash");                                 \
  }                                                                                                                                    \
  template <typename T0, bool isReuseSource = false, bool isBasicBlock = false, bool NZ = false>                                       \
  inline void SoftmaxFlash(const LocalTensor<T>& dst, const LocalTensor<U>& sum, const LocalTensor<U>& max, const LocalTensor<T>& src, \
                           const LocalTensor<T>& expMax, const LocalTensor<U>& inSum, const LocalTensor<U>& inMax,                     \
                           const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling, bool isUpdate = false,            \
                           const SoftMaxShapeInfo& info = {}) {                                                                        \
    simulator::Rows rows = SIMULATOR_ROWS("SoftmaxFlash");                                                                                       \
    simulator::scratch(sharedTmpBuffer, simulator::rowScratch(rows), "SoftmaxFlash");                                                            \
    simulator::Flash<T, U>{dst, sum, max, src, expMax, inSum, inMax}(rows, isUpdate, true, "SoftmaxFlash");                                 \
  }                                                                                                                                    \
  template <typename T0, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false, bool NZ = false,                \
            const auto& config = SOFTMAX_DEFAULT_CFG>                                                                                  \
  inline void SoftmaxFlashV2(const LocalTensor<T>& dst, const LocalTensor<U>& expSum, const LocalTensor<U>& max,                       \
                             const LocalTensor<T>& src, const LocalTensor<T>& expMax, const LocalTensor<U>& inExpSum,                  \
                             const LocalTensor<U>& inMax, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& info = {}) {            \
    simulator::Rows rows = SIMULATOR_ROWS("SoftmaxFlashV2");                                                                                     \
    simulator::scratch(simulator::rowScratch(rows), "SoftmaxFlashV2");                                                                           \
    bool single = SIMULATOR_SINGLE;                                                                                                         \
    simulator::Flash<T, U>{dst, {expSum, single}, {max, single}, src, {expMax, single}, {inExpSum, single}, {inMax, single}}(               \
        rows, isUpdate, false, "SoftmaxFlashV2");                                                                                      \
  }                                                                                                                                    \
  template <typename T0, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false, bool NZ = false,                \
            const auto& config = SOFTMAX_DEFAULT_CFG>                                                                                  \
  inline void SoftmaxFlashV2(const LocalTensor<T>& dst, const LocalTensor<U>& expSum, const LocalTensor<U>& max,                       \
                             const LocalTensor<T>& src, const LocalTensor<T>& expMax, const LocalTensor<U>& inExpSum,                  \
                             const LocalTensor<U>& inMax, const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling,    \
                             const SoftMaxShapeInfo& info = {}) {                                                                      \
    simulator::Rows rows = SIMULATOR_ROWS("SoftmaxFlashV2");                                                                                     \
    simulator::scratch(sharedTmpBuffer, simulator::rowScratch(rows), "SoftmaxFlashV2");                                                          \
    bool single = SIMULATOR_SINGLE;                                                                                                         \
    simulator::Flash<T, U>{dst, {expSum, single}, {max, single}, src, {expMax, single}, {inExpSum, single}, {inMax, single}}(               \
        rows, isUpdate, false, "SoftmaxFlashV2");                                                                                      \
  }
#define SIMULATOR_SAME T0
SIMULATOR_FLASH(SIMULATOR_SAME, SIMULATOR_SAME)
SIMULATOR_FLASH(half, float)
#undef SIMULATOR_SAME
#undef SIMULATOR_FLASH

// ---- SoftmaxGrad
template <typename T, bool isReuseSource = false, bool NZ = false>
inline void SoftmaxGrad(const LocalTensor<T>& dst, const LocalTensor<T>& grad, const LocalTensor<T>& src, const SoftMaxTiling& tiling,
                        bool isFront = false, const SoftMaxShapeInfo& info = {}) {
  simulator::Rows rows = SIMULATOR_ROWS("SoftmaxGrad");
  simulator::scratch(simulator::rowScratch(rows), "SoftmaxGrad");
  simulator::softmaxGrad(dst, grad, src, rows, isFront);
}
template <typename T, bool isReuseSource = false, bool NZ = false>
inline void SoftmaxGrad(const LocalTensor<T>& dst, const LocalTensor<T>& grad, const LocalTensor<T>& src,
                        const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling, bool isFront = false,
                        const SoftMaxShapeInfo& info = {}) {
  simulator::Rows rows = SIMULATOR_ROWS("SoftmaxGrad");
  simulator::scratch(sharedTmpBuffer, simulator::rowScratch(rows), "SoftmaxGrad");
  simulator::softmaxGrad(dst, grad, src, rows, isFront);
}
template <typename T, bool isBasicBlock = false, bool NZ = false>
inline void SoftmaxGradFront(const LocalTensor<T>& dst, const LocalTensor<T>& grad, const LocalTensor<T>& src, const SoftMaxTiling& tiling,
                             const SoftMaxShapeInfo& info = {}) {
  SoftmaxGrad<T, false, NZ>(dst, grad, src, tiling, true, info);
}
template <typename T, bool isBasicBlock = false, bool NZ = false>
inline void SoftmaxGradFront(const LocalTensor<T>& dst, const LocalTensor<T>& grad, const LocalTensor<T>& src,
                             const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& info = {}) {
  SoftmaxGrad<T, false, NZ>(dst, grad, src, sharedTmpBuffer, tiling, true, info);
}

// ---- LogSoftMax: its logarithm has base 10
template <typename T, bool isReuseSource = false, bool NZ = false>
inline void LogSoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& sum, const LocalTensor<T>& max, const LocalTensor<T>& src,
                       const LocalTensor<uint8_t>& sharedTmpBuffer, const LogSoftMaxTiling& tiling, const SoftMaxShapeInfo& info = {}) {
  simulator::Rows rows = SIMULATOR_ROWS("LogSoftMax");
  simulator::scratch(sharedTmpBuffer, simulator::rowScratch(rows), "LogSoftMax");
  simulator::PerRow<T> sums(sum), maxima(max);
  simulator::softmax<T, T>(dst, &sums, &maxima, src, rows);
  simulator::vectorCost(rows.elements() * sizeof(float), 3, 2);
  if (simulator::isDry()) return;
  for (uint32_t row = 0; row < rows.count; row++)
    for (uint32_t i = 0; i < rows.width; i++) {
      T& value = dst.data()[rows.at(row, i)];
      value = T(std::log10(float(value)));
    }
}
#undef SIMULATOR_ROWS
#undef SIMULATOR_SINGLE

// Fills rows whose maximum has the bits of `from` (for example fully masked rows) with `to`. Returns whether there was one.
template <typename T1, typename T2, bool NZ = false, uint8_t stepSizeMode = 0>
inline bool AdjustSoftMaxRes(const LocalTensor<T1>& softMaxRes, const LocalTensor<T2>& maxTensor, const uint32_t from, const T1 to,
                             const SoftMaxShapeInfo& info) {
  simulator::Rows rows{info.srcM, info.srcK, info.srcK, NZ};
  simulator::alignedRows<T1>(rows, "AdjustSoftMaxRes");
  simulator::PerRow<T2> maxima(maxTensor, stepSizeMode != 0);
  maxima.reads(rows, "AdjustSoftMaxRes");
  simulator::core->scalar(rows.count * simulator::chip().scalar_ub);
  if (simulator::isDry()) simulator::guess();
  bool any = false;
  for (uint32_t row = 0; row < rows.count; row++) {
    uint32_t bits = 0;
    memcpy(&bits, &maxTensor.data()[uint64_t(row) * maxima.each], sizeof(T2));
    if (bits != from) continue;
    any = true;
    for (uint32_t i = 0; i < rows.stride; i++) softMaxRes.data()[rows.at(row, i)] = to;
    simulator::vectorCost(uint64_t(rows.stride) * sizeof(T1), 1);
  }
  return any;
}

}  // namespace AscendC
