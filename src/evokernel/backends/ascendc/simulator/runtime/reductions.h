// The library's reductions of rows and columns, and its running sums.
#pragma once
#include "softmax.h"

namespace AscendC {

struct SumParams {
  uint32_t outter = 1, inner = 0, n = 0;  // number of rows; elements from row to row, of which the first n are used
};
struct MeanParams {
  uint32_t outter = 1, inner = 0, n = 0;
};
enum class CumSumAlgorithm { CUMSUM_ALGORITHM_LINEBYLINE = 0, CUMSUM_ALGORITHM_SKLANSKY = 1 };
struct CumSumConfig {
  bool isLastAxis{true}, isReuseSource{false}, outputLastRow{false};
  CumSumAlgorithm algorithm{CumSumAlgorithm::CUMSUM_ALGORITHM_LINEBYLINE};
};
constexpr CumSumConfig defaultCumSumConfig{true, false, false, CumSumAlgorithm::CUMSUM_ALGORITHM_LINEBYLINE};
struct CumSumInfo {
  uint32_t outter{0}, inner{0};
};
namespace Pattern {
namespace Reduce {
struct AR {};  // reduces rows
struct RA {};  // reduces columns
}  // namespace Reduce
}  // namespace Pattern

}  // namespace AscendC

namespace simulator {

// One result per row.
template <typename T, typename F>
inline void reduceRows(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const Rows& rows, double cycles,
                       const char* what, F f) {
  alignedRows<T>(rows, what);
  uint64_t resultBytes = (uint64_t(rows.count) * sizeof(T) + BLOCK - 1) / BLOCK * BLOCK;
  vectorCost(rows.elements() * sizeof(T), cycles, 2 + int(rows.count));
  source(V, src, rows.elements() * sizeof(T), what);
  target(V, dst, std::min<uint64_t>(resultBytes, dst.high - dst.address), what);
  if (isDry()) return;
  for (uint32_t row = 0; row < rows.count; row++) dst.data()[row] = T(f(src.data() + rows.at(row, 0), rows.width));
}
template <typename T> inline float sumOf(const T* from, uint32_t count) {
  double sum = 0;
  for (uint32_t i = 0; i < count; i++) sum += double(float(from[i]));
  return float(sum);
}

// By pattern: the rows or the columns of a matrix, combined two at a time.
template <typename T, class Pattern, typename F, typename G>
inline void reducePattern(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const uint32_t shape[], bool innerPad,
                          double cycles, const char* what, F combine, G finish) {
  constexpr bool byRows = std::is_same<Pattern, AscendC::Pattern::Reduce::AR>::value;
  static_assert(byRows || std::is_same<Pattern, AscendC::Pattern::Reduce::RA>::value, "the pattern must be AR or RA");
  uint32_t perBlock = BLOCK / uint32_t(sizeof(T)), stride = innerPad ? (shape[1] + perBlock - 1) / perBlock * perBlock : shape[1];
  Rows rows{shape[0], stride, shape[1]};
  alignedRows<T>(rows, what);
  uint32_t results = byRows ? rows.count : rows.width;
  vectorCost(rows.elements() * sizeof(T), cycles, byRows ? 2 + int(rows.count) : int(rows.count));
  source(V, src, ((uint64_t(rows.count) - 1) * rows.stride + rows.width) * sizeof(T), what);
  target(V, dst, uint64_t(results) * sizeof(T), what);
  if (isDry()) return;
  for (uint32_t result = 0; result < results; result++) {
    uint32_t length = byRows ? rows.width : rows.count;
    T value = src.data()[byRows ? rows.at(result, 0) : rows.at(0, result)];
    for (uint32_t i = 1; i < length; i++) value = combine(value, src.data()[byRows ? rows.at(result, i) : rows.at(i, result)]);
    dst.data()[result] = finish(value, length);
  }
}

}  // namespace simulator

namespace AscendC {

template <typename T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false>
inline void Sum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
                const SumParams& params) {
  simulator::takes<simulator::Kind<T>::floats, T>("Sum");
  simulator::scratch(sharedTmpBuffer, 32, "Sum");
  simulator::reduceRows(dst, src, {params.outter, params.inner, params.n}, 2, "Sum",
                   [](const T* from, uint32_t n) { return simulator::sumOf(from, n); });
}
template <typename T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false>
inline void Sum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const SumParams& params) {
  simulator::takes<simulator::Kind<T>::floats, T>("Sum");
  simulator::scratch(32, "Sum");
  simulator::reduceRows(dst, src, {params.outter, params.inner, params.n}, 2, "Sum",
                   [](const T* from, uint32_t n) { return simulator::sumOf(from, n); });
}
template <typename T, typename accType = T, bool isReuseSource = false, bool isBasicBlock = false, int32_t reduceDim = -1>
inline void Mean(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
                 const MeanParams& params) {
  simulator::takes<simulator::Kind<T>::floats, T>("Mean");
  simulator::scratch(sharedTmpBuffer, 32, "Mean");
  simulator::reduceRows(dst, src, {params.outter, params.inner, params.n}, 3, "Mean",
                   [](const T* from, uint32_t n) { return simulator::sumOf(from, n) / float(n); });
}
template <typename T, typename accType = T, bool isReuseSource = false, bool isBasicBlock = false, int32_t reduceDim = -1>
inline void Mean(const LocalTensor<T>& dst, const LocalTensor<T>& src, const MeanParams& params) {
  simulator::takes<simulator::Kind<T>::floats, T>("Mean");
  simulator::scratch(32, "Mean");
  simulator::reduceRows(dst, src, {params.outter, params.inner, params.n}, 3, "Mean",
                   [](const T* from, uint32_t n) { return simulator::sumOf(from, n) / float(n); });
}

#define SIMULATOR_REDUCE_PATTERN(NAME, TYPES, CYCLES, COMBINE, FINISH)                                                                        \
  template <class T, class pattern, bool isReuseSource = false>                                                                          \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,                    \
                   const uint32_t srcShape[], bool srcInnerPad) {                                                                        \
    simulator::takes<simulator::Kind<T>::TYPES, T>(#NAME);                                                                                         \
    simulator::scratch(sharedTmpBuffer, 32, #NAME);                                                                                           \
    simulator::reducePattern<T, pattern>(                                                                                                     \
        dst, src, srcShape, srcInnerPad, CYCLES, #NAME, [](T x, T y) { return T(COMBINE); }, [](T x, uint32_t n) { return T(FINISH); }); \
  }                                                                                                                                      \
  template <class T, class pattern, bool isReuseSource = false>                                                                          \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t srcShape[], bool srcInnerPad) {                  \
    simulator::takes<simulator::Kind<T>::TYPES, T>(#NAME);                                                                                         \
    simulator::scratch(32, #NAME);                                                                                                            \
    simulator::reducePattern<T, pattern>(                                                                                                     \
        dst, src, srcShape, srcInnerPad, CYCLES, #NAME, [](T x, T y) { return T(COMBINE); }, [](T x, uint32_t n) { return T(FINISH); }); \
  }
SIMULATOR_REDUCE_PATTERN(ReduceSum, f32, 2, x + y, x)
SIMULATOR_REDUCE_PATTERN(ReduceMean, f32, 3, x + y, x / float(n))
SIMULATOR_REDUCE_PATTERN(ReduceProd, f32, 2, x* y, x)
SIMULATOR_REDUCE_PATTERN(ReduceMax, floats, 2, x > y ? x : y, x)
SIMULATOR_REDUCE_PATTERN(ReduceMin, floats, 2, x < y ? x : y, x)
SIMULATOR_REDUCE_PATTERN(ReduceAny, f32 || sizeof(T) == 1, 2, x > y ? x : y, x)
SIMULATOR_REDUCE_PATTERN(ReduceAll, f32 || sizeof(T) == 1, 2, x < y ? x : y, x)
#undef SIMULATOR_REDUCE_PATTERN

// The sum of src0 xor src1.
template <typename T, bool isReuseSource = false>
inline void ReduceXorSum(LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, LocalTensor<uint8_t>& sharedTmpBuffer,
                         const uint32_t count) {
  const char* what = "ReduceXorSum";
  simulator::takes<simulator::Kind<T>::i16, T>(what);
  simulator::scratch(sharedTmpBuffer, 512, what);
  if (simulator::nothing(count, what)) return;
  simulator::vectorCost(uint64_t(count) * sizeof(T), 7, 8);
  simulator::source(simulator::V, src0, uint64_t(count) * sizeof(T), what);
  simulator::source(simulator::V, src1, uint64_t(count) * sizeof(T), what);
  simulator::target(simulator::V, dst, sizeof(T), what);
  if (simulator::isDry()) return;
  int32_t sum = 0;
  for (uint32_t i = 0; i < count; i++) sum += src0.data()[i] ^ src1.data()[i];
  dst.data()[0] = T(sum);
}

// Running sums along rows (isLastAxis) or down columns.
template <typename T, const auto& config = defaultCumSumConfig>
inline void CumSum(LocalTensor<T>& dst, LocalTensor<T>& lastRow, const LocalTensor<T>& src, LocalTensor<uint8_t>& sharedTmpBuffer,
                   const CumSumInfo& info) {
  const char* what = "CumSum";
  simulator::takes<simulator::Kind<T>::floats, T>(what);
  simulator::Rows rows{info.outter, info.inner, info.inner};
  simulator::alignedRows<T>(rows, what);
  uint64_t bytes = rows.elements() * sizeof(T);
  simulator::scratch(sharedTmpBuffer, std::min<uint64_t>(bytes, 256), what);
  uint32_t steps = config.isLastAxis ? rows.width : rows.count;
  simulator::vectorCost(rows.elements() * sizeof(float), config.isLastAxis ? 6 : 2, int(steps) + 4 * int(config.isLastAxis));
  simulator::source(simulator::V, src, bytes, what);
  simulator::target(simulator::V, dst, bytes, what);
  for (uint32_t row = 0; row < rows.count && !simulator::isDry(); row++)
    for (uint32_t i = 0; i < rows.width; i++) {
      bool isFirst = config.isLastAxis ? i == 0 : row == 0;
      float before = isFirst ? 0 : float(dst.data()[config.isLastAxis ? rows.at(row, i - 1) : rows.at(row - 1, i)]);
      dst.data()[rows.at(row, i)] = T(before + float(src.data()[rows.at(row, i)]));
    }
  if (!config.outputLastRow) return;
  simulator::target(simulator::V, lastRow, uint64_t(rows.width) * sizeof(T), what);
  memcpy(lastRow.data(), dst.data() + rows.at(rows.count - 1, 0), uint64_t(rows.width) * sizeof(T));
}
template <typename T, const auto& config = defaultCumSumConfig>
inline void CumSum(LocalTensor<T>& dst, LocalTensor<T>& lastRow, const LocalTensor<T>& src, const CumSumInfo& info) {
  LocalTensor<uint8_t> scratch(TPosition::VECCALC, uint32_t(simulator::chip().ub_bytes) - 256, 256);
  CumSum<T, config>(dst, lastRow, src, scratch, info);
}

}  // namespace AscendC
