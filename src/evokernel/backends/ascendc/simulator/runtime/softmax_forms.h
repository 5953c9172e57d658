// The public forms of the softmax family. With half, sums and maxima may be float.
#pragma once

namespace AscendC {

#define TWIN_ROWS(WHAT) twin::rowsOf(src, tiling, info, NZ, WHAT)
#define TWIN_SOFTMAX_TYPES                                                                                                                \
  template <typename T, bool isReuseSource = false, bool isBasicBlock = false, bool NZ = false, const auto& config = SOFTMAX_DEFAULT_CFG> \
  inline void
#define TWIN_SINGLE (config.mode == SoftmaxMode::SOFTMAX_OUTPUT_WITHOUT_BRC)

// ---- SoftMax
#define TWIN_SOFTMAX(T, U)                                                                                                               \
  TWIN_SOFTMAX_TYPES SoftMax(const LocalTensor<T>& dst, const LocalTensor<U>& sum, const LocalTensor<U>& max, const LocalTensor<T>& src, \
                             const SoftMaxTiling& tiling, const SoftMaxShapeInfo& info = {}) {                                           \
    twin::Rows rows = TWIN_ROWS("SoftMax");                                                                                              \
    twin::scratch(twin::rowScratch(rows), "SoftMax");                                                                                    \
    twin::PerRow<U> sums(sum, TWIN_SINGLE), maxima(max, TWIN_SINGLE);                                                                    \
    twin::softmax<T, U>(dst, &sums, &maxima, src, rows);                                                                                 \
  }                                                                                                                                      \
  TWIN_SOFTMAX_TYPES SoftMax(const LocalTensor<T>& dst, const LocalTensor<U>& sum, const LocalTensor<U>& max, const LocalTensor<T>& src, \
                             const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling,                                   \
                             const SoftMaxShapeInfo& info = {}) {                                                                        \
    twin::Rows rows = TWIN_ROWS("SoftMax");                                                                                              \
    twin::scratch(sharedTmpBuffer, twin::rowScratch(rows), "SoftMax");                                                                   \
    twin::PerRow<U> sums(sum, TWIN_SINGLE), maxima(max, TWIN_SINGLE);                                                                    \
    twin::softmax<T, U>(dst, &sums, &maxima, src, rows);                                                                                 \
  }                                                                                                                                      \
  TWIN_SOFTMAX_TYPES SimpleSoftMax(const LocalTensor<T>& dst, const LocalTensor<U>& sum, const LocalTensor<U>& max,                      \
                                   const LocalTensor<T>& src, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& info = {}) {          \
    twin::Rows rows = TWIN_ROWS("SimpleSoftMax");                                                                                        \
    twin::scratch(twin::rowScratch(rows), "SimpleSoftMax");                                                                              \
    twin::simpleSoftmax<T, U>(dst, {sum, TWIN_SINGLE}, {max, TWIN_SINGLE}, src, rows);                                                   \
  }                                                                                                                                      \
  TWIN_SOFTMAX_TYPES SimpleSoftMax(const LocalTensor<T>& dst, const LocalTensor<U>& sum, const LocalTensor<U>& max,                      \
                                   const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling,  \
                                   const SoftMaxShapeInfo& info = {}) {                                                                  \
    twin::Rows rows = TWIN_ROWS("SimpleSoftMax");                                                                                        \
    twin::scratch(sharedTmpBuffer, twin::rowScratch(rows), "SimpleSoftMax");                                                             \
    twin::simpleSoftmax<T, U>(dst, {sum, TWIN_SINGLE}, {max, TWIN_SINGLE}, src, rows);                                                   \
  }
TWIN_SOFTMAX(T, T)
TWIN_SOFTMAX(half, float)
#undef TWIN_SOFTMAX
#undef TWIN_SOFTMAX_TYPES

template <typename T, bool isReuseSource = false, bool isBasicBlock = false, const auto& config = SOFTMAX_DEFAULT_CFG>
inline void SoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& info = {}) {
  twin::Rows rows = twin::rowsOf(src, tiling, info, false, "SoftMax");
  twin::scratch(twin::rowScratch(rows), "SoftMax");
  twin::softmax<T, T>(dst, nullptr, nullptr, src, rows);
}
template <typename T, bool isReuseSource = false, bool isBasicBlock = false, const auto& config = SOFTMAX_DEFAULT_CFG>
inline void SoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
                    const SoftMaxTiling& tiling, const SoftMaxShapeInfo& info = {}) {
  twin::Rows rows = twin::rowsOf(src, tiling, info, false, "SoftMax");
  twin::scratch(sharedTmpBuffer, twin::rowScratch(rows), "SoftMax");
  twin::softmax<T, T>(dst, nullptr, nullptr, src, rows);
}

// ---- SoftmaxFlash, SoftmaxFlashV2
#define TWIN_FLASH(T, U)                                                                                                               \
  template <typename T0, bool isReuseSource = false, bool isBasicBlock = false, bool NZ = false>                                       \
  inline void SoftmaxFlash(const LocalTensor<T>& dst, const LocalTensor<U>& sum, const LocalTensor<U>& max, const LocalTensor<T>& src, \
                           const LocalTensor<T>& expMax, const LocalTensor<U>& inSum, const LocalTensor<U>& inMax,                     \
                           const SoftMaxTiling& tiling, bool isUpdate = false, const SoftMaxShapeInfo& info = {}) {                    \
    twin::Rows rows = TWIN_ROWS("SoftmaxFlash");                                                                                       \
    twin::scratch(twin::rowScratch(rows), "SoftmaxFlash");                                                                             \
    twin::Flash<T, U>{dst, sum, max, src, expMax, inSum, inMax}(rows, isUpdate, true, "SoftmaxFlash");                                 \
  }                                                                                                                                    \
  template <typename T0, bool isReuseSource = false, bool isBasicBlock = false, bool NZ = false>                                       \
  inline void SoftmaxFlash(const LocalTensor<T>& dst, const LocalTensor<U>& sum, const LocalTensor<U>& max, const LocalTensor<T>& src, \
                           const LocalTensor<T>& expMax, const LocalTensor<U>& inSum, const LocalTensor<U>& inMax,                     \
                           const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling, bool isUpdate = false,            \
                           const SoftMaxShapeInfo& info = {}) {                                                                        \
    twin::Rows rows = TWIN_ROWS("SoftmaxFlash");                                                                                       \
    twin::scratch(sharedTmpBuffer, twin::rowScratch(rows), "SoftmaxFlash");                                                            \
    twin::Flash<T, U>{dst, sum, max, src, expMax, inSum, inMax}(rows, isUpdate, true, "SoftmaxFlash");                                 \
  }                                                                                                                                    \
  template <typename T0, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false, bool NZ = false,                \
            const auto& config = SOFTMAX_DEFAULT_CFG>                                                                                  \
  inline void SoftmaxFlashV2(const LocalTensor<T>& dst, const LocalTensor<U>& expSum, const LocalTensor<U>& max,                       \
                             const LocalTensor<T>& src, const LocalTensor<T>& expMax, const LocalTensor<U>& inExpSum,                  \
                             const LocalTensor<U>& inMax, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& info = {}) {            \
    twin::Rows rows = TWIN_ROWS("SoftmaxFlashV2");                                                                                     \
    twin::scratch(twin::rowScratch(rows), "SoftmaxFlashV2");                                                                           \
    bool single = TWIN_SINGLE;                                                                                                         \
    twin::Flash<T, U>{dst, {expSum, single}, {max, single}, src, {expMax, single}, {inExpSum, single}, {inMax, single}}(               \
        rows, isUpdate, false, "SoftmaxFlashV2");                                                                                      \
  }                                                                                                                                    \
  template <typename T0, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false, bool NZ = false,                \
            const auto& config = SOFTMAX_DEFAULT_CFG>                                                                                  \
  inline void SoftmaxFlashV2(const LocalTensor<T>& dst, const LocalTensor<U>& expSum, const LocalTensor<U>& max,                       \
                             const LocalTensor<T>& src, const LocalTensor<T>& expMax, const LocalTensor<U>& inExpSum,                  \
                             const LocalTensor<U>& inMax, const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling,    \
                             const SoftMaxShapeInfo& info = {}) {                                                                      \
    twin::Rows rows = TWIN_ROWS("SoftmaxFlashV2");                                                                                     \
    twin::scratch(sharedTmpBuffer, twin::rowScratch(rows), "SoftmaxFlashV2");                                                          \
    bool single = TWIN_SINGLE;                                                                                                         \
    twin::Flash<T, U>{dst, {expSum, single}, {max, single}, src, {expMax, single}, {inExpSum, single}, {inMax, single}}(               \
        rows, isUpdate, false, "SoftmaxFlashV2");                                                                                      \
  }
#define TWIN_SAME T0
TWIN_FLASH(TWIN_SAME, TWIN_SAME)
TWIN_FLASH(half, float)
#undef TWIN_SAME
#undef TWIN_FLASH

// ---- SoftmaxGrad
template <typename T, bool isReuseSource = false, bool NZ = false>
inline void SoftmaxGrad(const LocalTensor<T>& dst, const LocalTensor<T>& grad, const LocalTensor<T>& src, const SoftMaxTiling& tiling,
                        bool isFront = false, const SoftMaxShapeInfo& info = {}) {
  twin::Rows rows = TWIN_ROWS("SoftmaxGrad");
  twin::scratch(twin::rowScratch(rows), "SoftmaxGrad");
  twin::softmaxGrad(dst, grad, src, rows, isFront);
}
template <typename T, bool isReuseSource = false, bool NZ = false>
inline void SoftmaxGrad(const LocalTensor<T>& dst, const LocalTensor<T>& grad, const LocalTensor<T>& src,
                        const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling, bool isFront = false,
                        const SoftMaxShapeInfo& info = {}) {
  twin::Rows rows = TWIN_ROWS("SoftmaxGrad");
  twin::scratch(sharedTmpBuffer, twin::rowScratch(rows), "SoftmaxGrad");
  twin::softmaxGrad(dst, grad, src, rows, isFront);
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

// ---- LogSoftMax: its logarithm is the one to base 10
template <typename T, bool isReuseSource = false, bool NZ = false>
inline void LogSoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& sum, const LocalTensor<T>& max, const LocalTensor<T>& src,
                       const LocalTensor<uint8_t>& sharedTmpBuffer, const LogSoftMaxTiling& tiling, const SoftMaxShapeInfo& info = {}) {
  twin::Rows rows = TWIN_ROWS("LogSoftMax");
  twin::scratch(sharedTmpBuffer, twin::rowScratch(rows), "LogSoftMax");
  twin::PerRow<T> sums(sum), maxima(max);
  twin::softmax<T, T>(dst, &sums, &maxima, src, rows);
  twin::vectorCost(rows.elements() * sizeof(float), 3, 2);
  for (uint32_t row = 0; row < rows.count; row++)
    for (uint32_t i = 0; i < rows.width; i++) {
      T& value = dst.data()[rows.at(row, i)];
      value = T(std::log10(float(value)));
    }
}
#undef TWIN_ROWS
#undef TWIN_SINGLE

// Rows whose maximum has the bits of `from` (all of them masked, say) are filled with `to`. Was there any?
template <typename T1, typename T2, bool NZ = false, uint8_t stepSizeMode = 0>
inline bool AdjustSoftMaxRes(const LocalTensor<T1>& softMaxRes, const LocalTensor<T2>& maxTensor, const uint32_t from, const T1 to,
                             const SoftMaxShapeInfo& info) {
  twin::Rows rows{info.srcM, info.srcK, info.srcK, NZ};
  twin::alignedRows<T1>(rows, "AdjustSoftMaxRes");
  twin::PerRow<T2> maxima(maxTensor, stepSizeMode != 0);
  maxima.reads(rows, "AdjustSoftMaxRes");
  twin::core->scalar(rows.count * twin::chip().scalar_ub);
  bool any = false;
  for (uint32_t row = 0; row < rows.count; row++) {
    uint32_t bits = 0;
    memcpy(&bits, &maxTensor.data()[uint64_t(row) * maxima.each], sizeof(T2));
    if (bits != from) continue;
    any = true;
    for (uint32_t i = 0; i < rows.stride; i++) softMaxRes.data()[rows.at(row, i)] = to;
    twin::vectorCost(uint64_t(rows.stride) * sizeof(T1), 1);
  }
  return any;
}

}  // namespace AscendC
