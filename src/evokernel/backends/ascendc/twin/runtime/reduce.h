// Many elements to one: the sum, the largest or the smallest of a repeat, of each of its blocks, or of all.
#pragma once
#include "vector.h"

namespace twin {

// Cycles of a repeat that crosses lanes; measured for max and min, and taken for sums as well.
constexpr double ACROSS = 7;

// Adds neighbours, then neighbours of those, and so on; a lane that is off counts as 0.
template <typename T> inline float treeSum(const T* from, const Mask& mask, int repeat, Stride by) {
  constexpr int width = int(256 / sizeof(T));
  float sums[width];
  for (int lane = 0; lane < width; lane++) sums[lane] = mask.on(lane) ? float(from[element<T>(repeat, lane, by)]) : 0.0f;
  for (int left = width / 2; left; left /= 2)
    for (int i = 0; i < left; i++) sums[i] = sums[2 * i] + sums[2 * i + 1];
  return sums[0];
}

// The first of the largest or smallest elements, as a lane.
template <typename T> inline int extremeLane(const T* from, const Mask& mask, int repeat, Stride by, bool largest) {
  int best = -1;
  for (int lane = 0; lane < int(256 / sizeof(T)); lane++) {
    if (!mask.on(lane)) continue;
    T x = from[element<T>(repeat, lane, by)];
    if (best < 0 || (largest ? x > from[element<T>(repeat, best, by)] : x < from[element<T>(repeat, best, by)])) best = lane;
  }
  return best;
}

// An index is stored as an integer of the element's size, in its bits.
template <typename T> inline T asBits(uint64_t index) {
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
  Bits bits = Bits(index);
  T stored;
  memcpy(static_cast<void*>(&stored), &bits, sizeof(T));
  return stored;
}

inline uint64_t upTo(uint64_t count, uint64_t to) { return (count + to - 1) / to * to; }

// Elements of work memory that a maximum or minimum of so many repeats needs; where an index is asked for, each round keeps its results.
template <typename T> inline uint64_t workElements(uint64_t repeats, bool withIndex) {
  constexpr uint64_t perBlock = 32 / sizeof(T), perRepeat = 256 / sizeof(T);
  uint64_t first = repeats * 2, needed = upTo(first, perBlock);
  if (!withIndex) return needed;
  for (uint64_t produced = first; produced > 2;) {
    produced = (produced + perRepeat - 1) / perRepeat * 2;
    needed += upTo(produced, perBlock);
  }
  return first > 2 ? needed : needed + perBlock;
}
// Returns how many elements of it there are.
template <typename T> inline uint64_t workBuffer(const AscendC::LocalTensor<T>& work, uint64_t elements, const char* what) {
  uint64_t bytes = elements * sizeof(T);
  if (!work.allocated) stop("E-UB-NULL", "%s: a work buffer that was never allocated", what);
  uint64_t has = work.high > work.address ? work.high - work.address : 0;
  if (has < bytes) broken("E-RED-WORK", "%s needs a work buffer of %llu bytes, and it has %llu", what, (unsigned long long)bytes, (unsigned long long)has);
  target(V, work, std::min(bytes, has), what);
  return std::min(bytes, has) / sizeof(T);
}

// The result is written by the scalar pipe, which first waits for the vector pipe.
template <typename T> inline void scalarResult(const AscendC::LocalTensor<T>& dst, const T* values, int count, const char* what) {
  core->time[S] = std::max(core->time[S], core->time[V]) + chip().handshake;
  operand(S, dst, uint64_t(count) * sizeof(T), true, what, uint32_t(sizeof(T)));
  memcpy(static_cast<void*>(dst.data()), values, uint64_t(count) * sizeof(T));
  core->time[V] = std::max(core->time[V], core->time[S]);
}

template <typename T> inline void extreme(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<T>& tmp,
                                          const Work& work, Stride by, bool calIndex, bool largest, const char* what) {
  takes<Kind<T>::floats, T>(what);
  // rounds: 64 or 128 results of the one before make one
  vectorCost(256ull * uint64_t(work.repeats), ACROSS, work.repeats > 1 ? 2 : 1);
  lanesOperand(src, work, by, false, what);
  const T* from = src.data();
  uint64_t best = 0, index = 0;
  std::vector<T> round;  // what the first round leaves in the work buffer, which may be the source
  for (int r = 0; r < work.repeats; r++) {
    int lane = extremeLane(from, work.of(r), r, by, largest);
    if (lane < 0) continue;
    uint64_t at = element<T>(r, lane, by);
    round.insert(round.end(), {from[at], asBits<T>(uint64_t(lane))});
    if (r == 0 || (largest ? from[at] > from[best] : from[at] < from[best])) {
      best = at;
      index = uint64_t(r) * by.repeat * (32 / sizeof(T)) + uint64_t(lane);
    }
  }
  const T results[2] = {from[best], asBits<T>(index)};
  uint64_t room = workBuffer(tmp, workElements<T>(uint64_t(work.repeats), calIndex), what);
  std::copy_n(round.begin(), std::min<uint64_t>(room, round.size()), tmp.data());
  scalarResult(dst, results, calIndex ? 2 : 1, what);
}
template <typename T> inline void extremeOfAll(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<T>& tmp,
                                               int64_t count, bool calIndex, bool largest, const char* what) {
  forgetMask();
  if (nothing(count, what)) return;
  if (calIndex && sizeof(T) == 2 && count > 65536) broken("E-RED-INDEX", "%s: an index of half ends at 65535, and there are %ld elements", what, long(count));
  Work work = workOf({Mask(), uint64_t(count), true}, 1, int(256 / sizeof(T)), what);
  extreme(dst, src, tmp, work, {1, 8}, calIndex, largest, what);
}

}  // namespace twin

namespace AscendC {

// ---- all elements

// Repeats are added one after the other; this chip does not use the work buffer here.
template <typename T, bool isSetMask = true>
inline void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const int32_t count) {
  const char* what = "ReduceSum";
  twin::takes<twin::Kind<T>::floats, T>(what);
  (void)sharedTmpBuffer;
  uint64_t elements = isSetMask ? uint64_t(std::max(count, 0)) : twin::core->maskElements;
  if (isSetMask) twin::forgetMask();
  if (twin::nothing(int64_t(elements), what)) return;
  twin::Work work = twin::workOf({twin::Mask(), elements, true}, 1, int(256 / sizeof(T)), what);
  twin::vectorCost(elements * sizeof(T), twin::ACROSS);
  twin::source(twin::V, src, elements * sizeof(T), what);
  float sum = 0;
  for (int r = 0; r < work.repeats; r++) sum += twin::treeSum(src.data(), work.of(r), r, {1, 8});
  const T result = T(sum);
  twin::scalarResult(dst, &result, 1, what);
}
template <typename T>
inline void ReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const int32_t count, bool calIndex = 0) {
  twin::extremeOfAll(dst, src, sharedTmpBuffer, count, calIndex, true, "ReduceMax");
}
template <typename T>
inline void ReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const int32_t count, bool calIndex = 0) {
  twin::extremeOfAll(dst, src, sharedTmpBuffer, count, calIndex, false, "ReduceMin");
}

}  // namespace AscendC
