// Filling local memory: one value everywhere, a value per block, a run of numbers.
#pragma once
#include "vector.h"

namespace twin {

// One destination and no source: F gives each element by its place in the run.
template <typename F, typename T> inline void fill(const char* what, const AscendC::LocalTensor<T>& dst, int64_t count, F f) {
  forgetMask();
  if (nothing(count, what)) return;
  vectorCost(uint64_t(count) * sizeof(T), 1);
  target(V, dst, uint64_t(count) * sizeof(T), what);
  T* to = dst.data();
  for (int64_t i = 0; i < count; i++) to[i] = f(i);
}
template <typename F, typename T>
inline void fillRepeat(const char* what, const AscendC::LocalTensor<T>& dst, const Lanes& given, int count, Stride by, F f) {
  constexpr int width = int(256 / sizeof(T));
  Work work = workOf(given, count, width, what);
  vectorCost(256ull * uint64_t(work.repeats), 1);
  lanesOperand(dst, work, by, true, what);
  for (int r = 0; r < work.repeats; r++)
    for (int lane = 0; lane < width; lane++)
      if (work.of(r).on(lane)) dst.data()[element<T>(r, lane, by)] = f(int64_t(r) * width + lane);
}

template <typename T> constexpr bool fills = Kind<T>::arithmetic || Kind<T>::bf16 || Kind<T>::u16 || Kind<T>::u32;

}  // namespace twin

namespace AscendC {

template <typename T> inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const int32_t& count) {
  twin::takes<twin::fills<T>, T>("Duplicate");
  const T value = scalarValue;
  twin::fill("Duplicate", dst, count, [value](int64_t) { return value; });
}
template <typename T, bool isSetMask = true>
inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask, const uint8_t repeatTime, const uint16_t dstBlockStride,
                      const uint8_t dstRepeatStride) {
  twin::takes<twin::fills<T>, T>("Duplicate");
  const T value = scalarValue;
  twin::fillRepeat("Duplicate", dst, twin::maskOf<T, isSetMask>(mask, "Duplicate"), repeatTime, {dstBlockStride, dstRepeatStride},
                   [value](int64_t) { return value; });
}
template <typename T, bool isSetMask = true>
inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask[], const uint8_t repeatTime, const uint16_t dstBlockStride,
                      const uint8_t dstRepeatStride) {
  twin::takes<twin::fills<T>, T>("Duplicate");
  const T value = scalarValue;
  twin::fillRepeat("Duplicate", dst, twin::maskOf<T, isSetMask>(mask, "Duplicate"), repeatTime, {dstBlockStride, dstRepeatStride},
                   [value](int64_t) { return value; });
}

}  // namespace AscendC
