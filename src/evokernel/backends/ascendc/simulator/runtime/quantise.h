// The library's quantisation: to int8_t with a scale and an offset, back, and back from results of the cube.
#pragma once
#include "softmax.h"

namespace AscendC {

struct DequantParams {
  uint32_t m = 0, n = 0, calCount = 0;  // number of rows; number of columns, of which calCount have a scale
};
enum class DeQuantMode { DEQUANT_WITH_SINGLE_ROW, DEQUANT_WITH_MULTI_ROW };
struct AntiQuantShapeInfo {
  uint32_t offsetHeight{0}, offsetWidth{0}, scaleHeight{0}, scaleWidth{0};
};

}  // namespace AscendC

namespace simulator {

inline int8_t quantised(float value) { return int8_t(std::min(std::max(std::nearbyint(value), -128.0f), 127.0f)); }

// Element i of every row uses scale i; without a scale tensor, all use the single scale.
template <typename T, typename S, typename O>
inline void quantise(const AscendC::LocalTensor<int8_t>& dst, const AscendC::LocalTensor<T>& src, S scaleAt, O offsetAt, uint64_t count) {
  const char* what = "AscendQuant";
  takes<Kind<T>::floats, T>(what);
  if (nothing(int64_t(count), what)) return;
  vectorCost(count * sizeof(float), 5, 5);
  source(V, src, count * sizeof(T), what);
  target(V, dst, count, what);
  if (isDry()) return;
  for (uint64_t i = 0; i < count; i++) dst.data()[i] = quantised(float(src.data()[i]) * scaleAt(i) + offsetAt(i));
}
template <typename T> inline auto each(const AscendC::LocalTensor<T>& tensor, uint32_t period, const char* what) {
  source(V, tensor, uint64_t(period) * sizeof(T), what);
  const T* from = tensor.data();
  return [from, period](uint64_t i) { return float(from[i % period]); };
}
inline auto always(float value) {
  return [value](uint64_t) { return value; };
}

template <typename D, typename S>
inline void dequantise(const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<int32_t>& src, S scaleAt,
                       const AscendC::DequantParams& by) {
  const char* what = "AscendDequant";
  takes<Kind<D>::floats || Kind<D>::bf16, D>(what);
  if (!by.m || !by.n || !by.calCount || by.calCount > by.n)
    endRun("E-LIB-SHAPE", "%s: invalid shape of %u rows of %u elements with calCount %u", what, by.m, by.n, by.calCount);
  if (by.n * sizeof(int32_t) % BLOCK) reportViolation("E-LIB-ALIGN", "%s: a row of %u elements is not a multiple of 32 bytes", what, by.n);
  uint64_t wide = (by.n * sizeof(D) + BLOCK - 1) / BLOCK * BLOCK / sizeof(D);
  vectorCost(uint64_t(by.m) * by.n * sizeof(float), 4, 4);
  source(V, src, uint64_t(by.m) * by.n * sizeof(int32_t), what);
  target(V, dst, ((uint64_t(by.m) - 1) * wide + by.calCount) * sizeof(D), what);
  if (isDry()) return;
  for (uint64_t row = 0; row < by.m; row++)
    for (uint64_t i = 0; i < by.calCount; i++) dst.data()[row * wide + i] = D(float(src.data()[row * by.n + i]) * scaleAt(i));
}

template <typename I, typename D, typename S, typename O>
inline void antiQuantise(const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<I>& src, S scaleAt, O offsetAt, uint64_t count) {
  const char* what = "AscendAntiQuant";
  takes<std::is_same<I, int8_t>::value && (Kind<D>::f16 || Kind<D>::bf16), D>(what);
  if (nothing(int64_t(count), what)) return;
  vectorCost(count * sizeof(float), 5, 5);
  source(V, src, count, what);
  target(V, dst, count * sizeof(D), what);
  if (isDry()) return;
  for (uint64_t i = 0; i < count; i++) dst.data()[i] = D((float(src.data()[i]) + offsetAt(i)) * scaleAt(i));
}

}  // namespace simulator

namespace AscendC {

#define SIMULATOR_QUANT template <typename T, bool isReuseSource = false, const auto& config = simulator::NO_CONFIG> inline void
SIMULATOR_QUANT AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
                       const float scale, const float offset, const uint32_t count) {
  simulator::scratch(sharedTmpBuffer, 256, "AscendQuant");
  simulator::quantise(dst, src, simulator::always(scale), simulator::always(offset), count);
}
SIMULATOR_QUANT AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const float scale, const float offset,
                       const uint32_t count) {
  simulator::scratch(256, "AscendQuant");
  simulator::quantise(dst, src, simulator::always(scale), simulator::always(offset), count);
}
SIMULATOR_QUANT AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
                       const float scale, const float offset) {
  AscendQuant<T, isReuseSource, config>(dst, src, sharedTmpBuffer, scale, offset, src.GetSize());
}
SIMULATOR_QUANT AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const float scale, const float offset) {
  AscendQuant<T, isReuseSource, config>(dst, src, scale, offset, src.GetSize());
}
SIMULATOR_QUANT AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
                       const LocalTensor<T>& scale, const T offset, const uint32_t scaleCount, const uint32_t count) {
  simulator::scratch(sharedTmpBuffer, 256, "AscendQuant");
  simulator::quantise(dst, src, simulator::each(scale, scaleCount, "AscendQuant"), simulator::always(float(offset)), count);
}
SIMULATOR_QUANT AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const LocalTensor<T>& scale, const T offset,
                       const uint32_t scaleCount, const uint32_t count) {
  simulator::scratch(256, "AscendQuant");
  simulator::quantise(dst, src, simulator::each(scale, scaleCount, "AscendQuant"), simulator::always(float(offset)), count);
}
SIMULATOR_QUANT AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
                       const LocalTensor<T>& scale, const LocalTensor<T>& offset, const uint32_t scaleCount, const uint32_t offsetCount,
                       const uint32_t count) {
  simulator::scratch(sharedTmpBuffer, 256, "AscendQuant");
  simulator::quantise(dst, src, simulator::each(scale, scaleCount, "AscendQuant"), simulator::each(offset, offsetCount, "AscendQuant"), count);
}
SIMULATOR_QUANT AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const LocalTensor<T>& scale, const LocalTensor<T>& offset,
                       const uint32_t scaleCount, const uint32_t offsetCount, const uint32_t count) {
  simulator::scratch(256, "AscendQuant");
  simulator::quantise(dst, src, simulator::each(scale, scaleCount, "AscendQuant"), simulator::each(offset, offsetCount, "AscendQuant"), count);
}
#undef SIMULATOR_QUANT

#define SIMULATOR_DEQUANT template <typename dstT, typename scaleT, DeQuantMode mode = DeQuantMode::DEQUANT_WITH_SINGLE_ROW> inline void
SIMULATOR_DEQUANT AscendDequant(const LocalTensor<dstT>& dst, const LocalTensor<int32_t>& src, const LocalTensor<scaleT>& deqScale,
                           const LocalTensor<uint8_t>& sharedTmpBuffer, DequantParams params) {
  simulator::scratch(sharedTmpBuffer, 256, "AscendDequant");
  simulator::dequantise(dst, src, simulator::each(deqScale, params.calCount, "AscendDequant"), params);
}
SIMULATOR_DEQUANT AscendDequant(const LocalTensor<dstT>& dst, const LocalTensor<int32_t>& src, const LocalTensor<scaleT>& deqScale,
                           DequantParams params) {
  simulator::scratch(256, "AscendDequant");
  simulator::dequantise(dst, src, simulator::each(deqScale, params.calCount, "AscendDequant"), params);
}
SIMULATOR_DEQUANT AscendDequant(const LocalTensor<dstT>& dst, const LocalTensor<int32_t>& src, const LocalTensor<scaleT>& deqScale,
                           const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t count) {
  AscendDequant<dstT, scaleT, mode>(dst, src, deqScale, sharedTmpBuffer, DequantParams{1, (count + 7) / 8 * 8, count});
}
SIMULATOR_DEQUANT AscendDequant(const LocalTensor<dstT>& dst, const LocalTensor<int32_t>& src, const LocalTensor<scaleT>& deqScale,
                           const uint32_t count) {
  AscendDequant<dstT, scaleT, mode>(dst, src, deqScale, DequantParams{1, (count + 7) / 8 * 8, count});
}
SIMULATOR_DEQUANT AscendDequant(const LocalTensor<dstT>& dst, const LocalTensor<int32_t>& src, const scaleT deqScale,
                           const LocalTensor<uint8_t>& sharedTmpBuffer, DequantParams params) {
  simulator::scratch(sharedTmpBuffer, 256, "AscendDequant");
  simulator::dequantise(dst, src, simulator::always(float(deqScale)), params);
}
SIMULATOR_DEQUANT AscendDequant(const LocalTensor<dstT>& dst, const LocalTensor<int32_t>& src, const scaleT deqScale, DequantParams params) {
  simulator::scratch(256, "AscendDequant");
  simulator::dequantise(dst, src, simulator::always(float(deqScale)), params);
}
#undef SIMULATOR_DEQUANT

// One scale and offset for all, or one per row of k elements.
template <typename InputDataType, typename OutputDataType, bool isTranspose = false>
inline void AscendAntiQuant(const LocalTensor<OutputDataType>& dst, const LocalTensor<InputDataType>& src, const OutputDataType offset,
                            const OutputDataType scale, const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t k,
                            const AntiQuantShapeInfo& = {}) {
  (void)k;
  simulator::scratch(sharedTmpBuffer, 256, "AscendAntiQuant");
  simulator::antiQuantise(dst, src, simulator::always(float(scale)), simulator::always(float(offset)), src.GetSize());
}
template <typename InputDataType, typename OutputDataType, bool isTranspose = false>
inline void AscendAntiQuant(const LocalTensor<OutputDataType>& dst, const LocalTensor<InputDataType>& src,
                            const LocalTensor<OutputDataType>& offset, const LocalTensor<OutputDataType>& scale,
                            const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t k, const AntiQuantShapeInfo& = {}) {
  simulator::scratch(sharedTmpBuffer, 256, "AscendAntiQuant");
  uint32_t columns = k ? src.GetSize() / k : 0;
  if (!columns) simulator::endRun("E-LIB-SHAPE", "AscendAntiQuant: %u elements do not fill rows of %u", src.GetSize(), k);
  auto scaleAt = simulator::each(scale, columns, "AscendAntiQuant"), offsetAt = simulator::each(offset, columns, "AscendAntiQuant");
  if (isTranspose) {  // [n][k]: a scale per row
    simulator::antiQuantise(dst, src, [=](uint64_t i) { return scaleAt(i / k); }, [=](uint64_t i) { return offsetAt(i / k); }, src.GetSize());
  } else {  // [k][n]: a scale per column
    simulator::antiQuantise(dst, src, scaleAt, offsetAt, src.GetSize());
  }
}

}  // namespace AscendC
