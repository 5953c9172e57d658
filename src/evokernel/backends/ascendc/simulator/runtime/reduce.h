// Reductions: the sum, maximum or minimum of a repeat, of each of its blocks, or of all elements.
#pragma once
#include "vector.h"

namespace simulator {

// Cycles of a repeat with cross-lane operations; measured for max and min, and used for sums too.
constexpr double ACROSS = 7;

// Sums neighbours as a binary tree; an inactive lane counts as 0.
template <typename T> inline float treeSum(const T* from, const Mask& mask, int repeat, Stride by) {
  if (isDry()) return 0;
  constexpr int width = int(256 / sizeof(T));
  float sums[width];
  for (int lane = 0; lane < width; lane++) sums[lane] = mask.on(lane) ? float(from[element<T>(repeat, lane, by)]) : 0.0f;
  for (int left = width / 2; left; left /= 2)
    for (int i = 0; i < left; i++) sums[i] = sums[2 * i] + sums[2 * i + 1];
  return sums[0];
}

// The lane of the first maximum or minimum.
template <typename T> inline int extremeLane(const T* from, const Mask& mask, int repeat, Stride by, bool largest) {
  int best = -1;
  if (isDry()) return mask.low ? __builtin_ctzll(mask.low) : mask.high && sizeof(T) < 4 ? 64 + __builtin_ctzll(mask.high) : -1;
  for (int lane = 0; lane < int(256 / sizeof(T)); lane++) {
    if (!mask.on(lane)) continue;
    T x = from[element<T>(repeat, lane, by)];
    if (best < 0 || (largest ? x > from[element<T>(repeat, best, by)] : x < from[element<T>(repeat, best, by)])) best = lane;
  }
  return best;
}

// Stores an index as an integer in the bits of an element.
template <typename T> inline T asBits(uint64_t index) {
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
  Bits bits = Bits(index);
  T stored;
  memcpy(static_cast<void*>(&stored), &bits, sizeof(T));
  return stored;
}

inline uint64_t upTo(uint64_t count, uint64_t to) { return (count + to - 1) / to * to; }

// The elements of work memory for a maximum or minimum over a number of repeats; with an index, each round stores its results.
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
// Returns the number of its elements.
template <typename T> inline uint64_t workBuffer(const AscendC::LocalTensor<T>& work, uint64_t elements, const char* what) {
  uint64_t bytes = elements * sizeof(T);
  if (!work.allocated) endRun("E-UB-NULL", "%s: the work buffer has no memory (it was never allocated)", what);
  uint64_t has = work.high > work.address ? work.high - work.address : 0;
  if (has < bytes)
    reportViolation("E-RED-WORK", "%s needs a work buffer of %llu bytes, but it has %llu", what, (unsigned long long)bytes, (unsigned long long)has);
  target(V, work, std::min(bytes, has), what);
  return std::min(bytes, has) / sizeof(T);
}

// The scalar pipe waits for the vector pipe.
inline void scalarWaits() { core->order(S, V, chip().handshake); }

// The scalar pipe writes the result, after waiting for the vector pipe.
template <typename T> inline void scalarResult(const AscendC::LocalTensor<T>& dst, const T* values, int count, const char* what) {
  scalarWaits();
  operand(S, dst, uint64_t(count) * sizeof(T), true, what, uint32_t(sizeof(T)));
  memcpy(static_cast<void*>(dst.data()), values, uint64_t(count) * sizeof(T));
  core->order(V, S);
}

template <typename T>
inline void extreme(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<T>& tmp,
                    const Work& work, Stride by, bool calIndex, bool largest, const char* what) {
  takes<Kind<T>::floats, T>(what);
  // rounds: each reduces 64 or 128 results of the previous round to one
  reduceCost(256ull * uint64_t(work.repeats), ACROSS, work.repeats > 1 ? 2 : 1);
  lanesOperand(src, work, by, false, what);
  const T* from = src.data();
  uint64_t best = 0, index = 0;
  std::vector<T> round;  // results of the first round in the work buffer, which may be the source
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
  memcpy(&core->registers.extreme, results, sizeof(T));
  core->registers.extremeIndex = index;
  uint64_t room = workBuffer(tmp, workElements<T>(uint64_t(work.repeats), calIndex), what);
  std::copy_n(round.begin(), std::min<uint64_t>(room, round.size()), tmp.data());
  scalarResult(dst, results, calIndex ? 2 : 1, what);
}
template <typename T>
inline void extremeOfAll(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<T>& tmp,
                         int64_t count, bool calIndex, bool largest, const char* what) {
  forgetMask();
  if (nothing(count, what)) return;
  if (calIndex && sizeof(T) == 2 && count > 65536)
    reportViolation("E-RED-INDEX", "%s: the largest index on half is 65535, but there are %ld elements", what, long(count));
  Work work = workOf({Mask(), uint64_t(count), true}, 1, int(256 / sizeof(T)), what);
  extreme(dst, src, tmp, work, {1, 8}, calIndex, largest, what);
}

// ---- one result per repeat, per block or per pair

inline void fieldOf(const char* name, int64_t value, int64_t most, const char* what) {
  if (value < 0 || value > most) reportViolation("E-STRIDE", "%s: %s %ld is outside 0..%ld", what, name, long(value), long(most));
}
struct Strides {  // strides of the reductions
  int32_t dstRep, srcBlk, srcRep;
  Stride check(const char* what) const {
    fieldOf("dstRepStride", dstRep, 65535, what);
    fieldOf("srcBlkStride", srcBlk, 65535, what);
    fieldOf("srcRepStride", srcRep, 65535, what);
    return {uint32_t(srcBlk), uint32_t(srcRep)};
  }
};
// One result: a range of the destination that need not start at a block.
template <typename T>
inline void put(const AscendC::LocalTensor<T>& dst, uint64_t skip, const void* bytes, uint64_t count, uint32_t align, const char* what) {
  AscendC::LocalTensor<T> part = dst;
  part.address += uint32_t(skip);
  target(V, part, count, what, align);
  memcpy(static_cast<void*>(part.data()), bytes, count);
}
template <typename T> inline uint64_t bitsOf(T value) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <typename T>
inline void sumRepeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const Lanes& given, int count, Strides by,
                       const char* what) {
  takes<Kind<T>::floats, T>(what);
  Stride from = by.check(what);
  Work work = workOf(given, count, int(256 / sizeof(T)), what);
  reduceCost(256ull * uint64_t(work.repeats), ACROSS);
  lanesOperand(src, work, from, false, what);
  for (int r = 0; r < work.repeats; r++) {
    const T sum = T(treeSum(src.data(), work.of(r), r, from));
    put(dst, uint64_t(r) * uint64_t(by.dstRep) * sizeof(T), &sum, sizeof(T), sizeof(T), what);
  }
}

template <typename T>
inline void extremeRepeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const Lanes& given, int count,
                           Strides by, AscendC::ReduceOrder order, bool largest, const char* what) {
  using AscendC::ReduceOrder;
  takes<Kind<T>::floats, T>(what);
  Stride from = by.check(what);
  constexpr int width = int(256 / sizeof(T));
  Work work = workOf(given, count, width, what);
  reduceCost(256ull * uint64_t(work.repeats), ACROSS);
  lanesOperand(src, work, from, false, what);
  T best = T(0);
  for (int r = 0; r < work.repeats; r++) {
    int lane = extremeLane(src.data(), work.of(r), r, from, largest);
    if (lane < 0) continue;
    const T value = src.data()[element<T>(r, lane, from)], index = asBits<T>(uint64_t(lane));
    const T pair[2] = {order == ReduceOrder::ORDER_INDEX_VALUE ? index : value, order == ReduceOrder::ORDER_INDEX_VALUE ? value : index};
    const uint32_t alone = uint32_t(lane);
    uint64_t at = uint64_t(r) * uint64_t(by.dstRep);
    if (order == ReduceOrder::ORDER_ONLY_VALUE) put(dst, at * sizeof(T), &value, sizeof(T), sizeof(T), what);
    else if (order == ReduceOrder::ORDER_ONLY_INDEX) put(dst, at * 4, &alone, 4, 4, what);
    else put(dst, at * 2 * sizeof(T), pair, 2 * sizeof(T), 2 * sizeof(T), what);
    if (r == 0 || (largest ? value > best : value < best)) {
      best = value;
      core->registers.extreme = bitsOf(value);
      core->registers.extremeIndex = uint64_t(r) * width + uint64_t(lane);
    }
  }
}

enum class Kept { SUM, LARGEST, SMALLEST };
template <typename T> inline bool blockResult(const T* from, const Mask& mask, int first, int repeat, Stride by, Kept kept, T& result) {
  constexpr int perBlock = int(32 / sizeof(T));
  Mask own;
  own.low = own.high = 0;
  for (int lane = first; lane < first + perBlock; lane++)
    if (mask.on(lane)) (lane < 64 ? own.low : own.high) |= 1ull << (lane % 64);
  if (!own.low && !own.high) return false;
  if (kept == Kept::SUM) result = T(treeSum(from, own, repeat, by));
  else result = from[element<T>(repeat, extremeLane(from, own, repeat, by, kept == Kept::LARGEST), by)];
  return true;
}
// A block without an active lane does not change its destination.
template <typename T>
inline void reduceBlocks(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const Lanes& given, int count, Strides by,
                         Kept kept, const char* what) {
  takes<Kind<T>::floats, T>(what);
  Stride from = by.check(what);
  constexpr int perBlock = int(32 / sizeof(T));
  Work work = workOf(given, count, int(256 / sizeof(T)), what);
  reduceCost(256ull * uint64_t(work.repeats), sizeof(T) == 4 ? 1 : ACROSS);
  lanesOperand(src, work, from, false, what);
  if (dst.address % (8 * sizeof(T)))
    reportViolation("E-UB-ALIGN", "%s: the destination address %u is not a multiple of %zu bytes", what, inSpace(dst.address), 8 * sizeof(T));
  for (int r = 0; r < work.repeats; r++)
    for (int block = 0; block < 8; block++) {
      T result;
      if (!blockResult(src.data(), work.of(r), block * perBlock, r, from, kept, result)) continue;
      put(dst, (uint64_t(r) * uint64_t(by.dstRep) * 8 + uint64_t(block)) * sizeof(T), &result, sizeof(T), sizeof(T), what);
    }
}
// Sums pairs of neighbours; cpadd takes one cycle.
template <typename T>
inline void sumPairs(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const Lanes& given, int count, Strides by,
                     const char* what) {
  takes<Kind<T>::floats, T>(what);
  Stride from = by.check(what);
  constexpr int width = int(256 / sizeof(T));
  Work work = workOf(given, count, width, what);
  reduceCost(256ull * uint64_t(work.repeats), 1);
  lanesOperand(src, work, from, false, what);
  for (int r = 0; r < work.repeats; r++)
    for (int pair = 0; pair < width / 2; pair++) {
      bool left = work.of(r).on(2 * pair), right = work.of(r).on(2 * pair + 1);
      if (!left && !right) continue;
      const T* at = src.data();
      float sum = (left ? float(at[element<T>(r, 2 * pair, from)]) : 0) + (right ? float(at[element<T>(r, 2 * pair + 1, from)]) : 0);
      const T result = T(sum);
      put(dst, uint64_t(r) * uint64_t(by.dstRep) * 128 + uint64_t(pair) * sizeof(T), &result, sizeof(T), sizeof(T), what);
    }
}

// Reduces several repeats to one result. The work buffer holds the sum of each repeat; a tree adds them.
template <typename T>
inline void sumOfAll(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<T>& tmp,
                     const Lanes& given, int count, int32_t srcRepStride, const char* what) {
  takes<Kind<T>::floats, T>(what);
  Stride from = Strides{1, 1, srcRepStride}.check(what);
  Work work = given.counted ? workOf(given, 1, int(256 / sizeof(T)), what) : Work{given.mask, given.mask, count};
  reduceCost(256ull * uint64_t(work.repeats), ACROSS, work.repeats > 1 ? 2 : 1);
  lanesOperand(src, work, from, false, what);
  std::vector<T> sums;
  for (int r = 0; r < work.repeats; r++) sums.push_back(T(treeSum(src.data(), work.of(r), r, from)));
  uint64_t room = workBuffer(tmp, upTo(uint64_t(work.repeats), 32 / sizeof(T)), what);
  std::copy_n(sums.begin(), std::min<uint64_t>(room, sums.size()), tmp.data());
  while (sums.size() > 1) {
    for (size_t i = 0; i < sums.size() / 2; i++) sums[i] = T(sums[2 * i] + sums[2 * i + 1]);
    if (sums.size() % 2) sums[sums.size() / 2] = sums.back();
    sums.resize((sums.size() + 1) / 2);
  }
  scalarResult(dst, sums.data(), 1, what);
}
template <typename T>
inline void extremeOfRepeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<T>& tmp,
                             const Lanes& given, int count, int32_t srcRepStride, bool calIndex, bool largest, const char* what) {
  Stride from = Strides{1, 1, srcRepStride}.check(what);
  Work work = given.counted ? workOf(given, 1, int(256 / sizeof(T)), what) : Work{given.mask, given.mask, count};
  extreme(dst, src, tmp, work, from, calIndex, largest, what);
}

}  // namespace simulator

namespace AscendC {

// ---- all elements

// Adds the repeats in sequence; this chip does not use the work buffer here.
template <typename T, bool isSetMask = true>
inline void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const int32_t count) {
  const char* what = "ReduceSum";
  simulator::takes<simulator::Kind<T>::floats, T>(what);
  (void)sharedTmpBuffer;
  uint64_t elements = isSetMask ? uint64_t(std::max(count, 0)) : simulator::core->maskElements;
  if (isSetMask) simulator::forgetMask();
  if (simulator::nothing(int64_t(elements), what)) return;
  simulator::Work work = simulator::workOf({simulator::Mask(), elements, true}, 1, int(256 / sizeof(T)), what);
  simulator::reduceCost(elements * sizeof(T), simulator::ACROSS);
  simulator::source(simulator::V, src, elements * sizeof(T), what);
  float sum = 0;
  for (int r = 0; r < work.repeats; r++) sum += simulator::treeSum(src.data(), work.of(r), r, {1, 8});
  const T result = T(sum);
  simulator::core->registers.sum = simulator::bitsOf(result);
  simulator::scalarResult(dst, &result, 1, what);
}
template <typename T>
inline void ReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const int32_t count,
                      bool calIndex = 0) {
  simulator::extremeOfAll(dst, src, sharedTmpBuffer, count, calIndex, true, "ReduceMax");
}
template <typename T>
inline void ReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const int32_t count,
                      bool calIndex = 0) {
  simulator::extremeOfAll(dst, src, sharedTmpBuffer, count, calIndex, false, "ReduceMin");
}

}  // namespace AscendC
