// Gathers elements: by byte offsets, by blocks, or by a bit mask.
#pragma once
#include "vector.h"

namespace AscendC {

struct GatherRepeatParams {
  uint32_t blockNumber = DEFAULT_BLK_NUM;
  uint16_t dstRepStride = DEFAULT_REPEAT_STRIDE;
  uint8_t dstBlkStride = DEFAULT_BLK_STRIDE, src0BlkStride = 1, src1BlkStride = 1, src0RepStride = 8, src1RepStride = 8;
  bool repeatStrideMode = false, strideSizeMode = false;
  GatherRepeatParams() {}
  GatherRepeatParams(const uint8_t dstBlk, const uint8_t dstRep) : dstRepStride(dstRep), dstBlkStride(dstBlk) {}
};
struct GatherMaskParams {
  uint8_t src0BlockStride = DEFAULT_BLK_STRIDE;
  uint16_t repeatTimes = 0, src0RepeatStride = DEFAULT_REPEAT_STRIDE;
  uint8_t src1RepeatStride = DEFAULT_REPEAT_STRIDE;
  GatherMaskParams() {}
  GatherMaskParams(const uint8_t src0Blk, const uint16_t repeats, const uint16_t src0Rep, const uint8_t src1Rep)
      : src0BlockStride(src0Blk), repeatTimes(repeats), src0RepeatStride(src0Rep), src1RepeatStride(src1Rep) {}
};
enum class GatherMaskMode : uint8_t { VERSION_V1 = 0, VERSION_V2 = 1 };
constexpr GatherMaskMode defaultGatherMaskMode = GatherMaskMode::VERSION_V1, defaultGahterMaskMode = GatherMaskMode::VERSION_V1;

}  // namespace AscendC

namespace simulator {

template <typename T> constexpr bool gathered = Kind<T>::arithmetic || Kind<T>::bf16 || Kind<T>::u16 || Kind<T>::u32;

// Measured for 32 and for 16 bits.
template <typename T> constexpr double GATHER = sizeof(T) == 4 ? 12 : 24;

// One element at a byte offset from the start of the source.
template <typename T> inline T fetched(const AscendC::LocalTensor<T>& src, uint64_t offset, const char* what) {
  if (__builtin_expect(offset % sizeof(T) != 0, 0))
    reportViolation("E-GATHER-OFFSET", "%s: the offset of %llu bytes is not a multiple of the %zu bytes of %s", what, (unsigned long long)offset,
           sizeof(T), typeName<T>());
  offset = offset / sizeof(T) * sizeof(T);
  uint64_t address = src.address + offset;
  if (__builtin_expect(address + sizeof(T) > src.high, 0)) {
    reportViolation("E-GATHER-OFFSET", "%s: the offset of %llu bytes is behind the end of the source, which has %u bytes", what, (unsigned long long)offset,
           src.high - src.address);
    if (address + sizeof(T) > SPACE_START[UB + 1])
      endRun("E-GATHER-OFFSET", "%s: the offset of %llu bytes is behind the end of the local memory", what, (unsigned long long)offset);
  }
  core->reads(uint32_t(address), sizeof(T), what);
  core->touch(V, uint32_t(address), sizeof(T), false, what);
  return *reinterpret_cast<const T*>(core->local + address);
}

// The elements of one repeat, if no access to the bytes from the first to the last of them can violate a rule; otherwise nothing happens.
template <typename T>
inline bool fetchedTogether(const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<uint32_t>& offsets, uint32_t base, const Mask& mask, T* values) {
  constexpr int width = int(256 / sizeof(T));
  const uint32_t* from = offsets.data();
  uint64_t least = UINT64_MAX, most = 0, odd = 0;
  for (int lane = 0; lane < width; lane++) {
    if (!mask.on(lane)) continue;
    uint64_t offset = uint64_t(base) + from[lane];
    least = std::min(least, offset), most = std::max(most, offset), odd |= offset % sizeof(T);
  }
  uint64_t first = src.address + least, end = src.address + most + sizeof(T);
  if (least > most || odd || end > src.high || !core->canRead(V, uint32_t(first), end - first)) return false;
  uint32_t block = UINT32_MAX;
  for (int lane = 0; lane < width; lane++) {
    if (!mask.on(lane)) continue;
    uint32_t address = src.address + base + from[lane];
    values[lane] = *reinterpret_cast<const T*>(core->local + address);
    if (address / BLOCK != block) core->noteRead(V, block = address / BLOCK);
  }
  core->used(uint32_t(first), end - first);
  return true;
}

template <typename T> inline void gatherable(const AscendC::LocalTensor<T>& src, const char* what) {
  takes<gathered<T>, T>(what);
  if (!src.allocated) endRun("E-UB-NULL", "%s: the LocalTensor has no memory (it was never allocated)", what);
  if (src.address % BLOCK)
    reportViolation("E-UB-ALIGN", "%s: %s address %u is not a multiple of 32 bytes", what, spaceName(spaceOf(src.address)), inSpace(src.address));
}

// Reads the offsets in sequence, 64 or 128 per repeat.
template <typename T>
inline void gather(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<uint32_t>& offsets,
                   uint32_t base, const Work& work, uint32_t dstRepStride, const char* what) {
  constexpr int width = int(256 / sizeof(T));
  gatherable(src, what);
  vectorCost(256ull * uint64_t(work.repeats), GATHER<T>);
  T values[width];
  for (int r = 0; r < work.repeats; r++) {
    const Mask& mask = work.of(r);
    AscendC::LocalTensor<uint32_t> own = offsets[r * width];
    source(V, own, uint64_t(lastLane(mask) + 1) * 4, what);
    if (!isDry() && !fetchedTogether(src, own, base, mask, values))
      for (int lane = 0; lane < width; lane++)
        if (mask.on(lane)) values[lane] = fetched(src, uint64_t(base) + own.data()[lane], what);
    AscendC::LocalTensor<T> part = dst;
    part.address += uint32_t(r) * dstRepStride * BLOCK;
    lanesOperand(part, mask, 1, {1, 8}, true, what);
    if (isDry()) continue;
    for (int lane = 0; lane < width; lane++)
      if (mask.on(lane)) part.data()[lane] = values[lane];
  }
}

// Copies the elements that Keep selects to consecutive addresses.
template <typename T, typename Keep>
inline uint64_t keep(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, bool reduceMode, uint32_t mask,
                     const AscendC::GatherMaskParams& by, Keep kept) {
  const char* what = "GatherMask";
  takes<gathered<T>, T>(what);
  constexpr uint64_t width = 256 / sizeof(T);
  uint64_t each = reduceMode ? mask : width;
  if (reduceMode && !mask) reportViolation("E-MASK", "GatherMask in counter mode: the mask is 0");
  vectorCost((each * sizeof(T) + 255) / 256 * 256 * by.repeatTimes, 2);
  uint64_t taken = 0;
  std::vector<T> values;
  for (uint64_t r = 0; r < by.repeatTimes; r++) {
    AscendC::LocalTensor<T> part = src;
    part.address += uint32_t(r * by.src0RepeatStride * BLOCK);
    for (uint64_t done = 0; done < each; done += width) {
      Mask own = lanes(std::min(width, each - done));
      lanesOperand(part, own, 1, {by.src0BlockStride, 8}, false, what);
      for (uint64_t lane = 0; lane < width && done + lane < each; lane++)
        if (kept(r, done + lane)) values.push_back(part.data()[element<T>(0, int(lane), {by.src0BlockStride, 8})]);
      part.address += 8u * by.src0BlockStride * BLOCK;
    }
  }
  taken = values.size();
  if (taken) {
    target(V, dst, taken * sizeof(T), what);
    std::copy(values.begin(), values.end(), dst.data());
  }
  forgetMask();
  core->registers.kept = taken;
  core->order(S, V, chip().handshake);  // a scalar receives the number
  return taken;
}

}  // namespace simulator

namespace AscendC {

template <typename T>
inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
                   const uint32_t srcBaseOffset, const uint32_t count) {
  simulator::forgetMask();
  if (simulator::nothing(count, "Gather")) return;
  simulator::gather(dst, src, srcOffset, srcBaseOffset, simulator::workOf({simulator::Mask(), count, true}, 1, int(256 / sizeof(T)), "Gather"), 8, "Gather");
}
template <typename T>
inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
                   const uint32_t srcBaseOffset, const uint64_t mask, const uint8_t repeatTime, const uint16_t dstRepStride) {
  simulator::gather(dst, src, srcOffset, srcBaseOffset,
               simulator::workOf(simulator::maskOf<T>(mask, "Gather"), repeatTime, int(256 / sizeof(T)), "Gather"), dstRepStride, "Gather");
}
template <typename T>
inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
                   const uint32_t srcBaseOffset, const uint64_t mask[], const uint8_t repeatTime, const uint16_t dstRepStride) {
  simulator::gather(dst, src, srcOffset, srcBaseOffset,
               simulator::workOf(simulator::maskOf<T>(mask, "Gather"), repeatTime, int(256 / sizeof(T)), "Gather"), dstRepStride, "Gather");
}

// Complete blocks: eight offsets per repeat, one per block. No cycles are published; a block costs as much as in a copy.
template <typename T>
inline void Gatherb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offset, const uint8_t repeatTime,
                    const GatherRepeatParams& by) {
  const char* what = "Gatherb";
  simulator::gatherable(src, what);
  simulator::repeats(repeatTime, what);
  simulator::vectorCost(256ull * repeatTime, 1);
  simulator::source(simulator::V, offset, repeatTime * 32ull, what);
  uint32_t blockStride = by.dstBlkStride ? by.dstBlkStride : 1;
  LocalTensor<T> from = src, to = dst;
  for (uint32_t r = 0; r < repeatTime; r++)
    for (uint32_t block = 0; block < 8; block++) {
      uint32_t skip = offset.data()[r * 8 + block];
      if (skip % 32 || uint64_t(src.address) + skip + 32 > src.high)
        simulator::endRun("E-GATHER-OFFSET", "Gatherb: the offset of %u bytes is not a multiple of 32, or is behind the end of the source", skip);
      from.address = src.address + skip;
      to.address = dst.address + (r * by.dstRepStride + block * blockStride) * 32;
      simulator::source(simulator::V, from, 32, what);
      simulator::target(simulator::V, to, 32, what);
      memmove(static_cast<void*>(to.data()), from.data(), 32);
    }
}

template <typename T, GatherMaskMode mode = defaultGatherMaskMode>
inline void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const uint8_t src1Pattern, const bool reduceMode,
                       const uint32_t mask, const GatherMaskParams& by, uint64_t& rsvdCnt) {
  if (src1Pattern < 1 || src1Pattern > 7) simulator::endRun("E-GATHER-PATTERN", "GatherMask: the pattern %d is outside 1..7", src1Pattern);
  rsvdCnt = simulator::keep(dst, src0, reduceMode, mask, by, [src1Pattern](uint64_t, uint64_t index) {
    if (src1Pattern == 7) return true;
    if (src1Pattern < 3) return index % 2 == uint64_t(src1Pattern - 1);
    return index % 4 == uint64_t(src1Pattern - 3);
  });
}
template <typename T, typename U, GatherMaskMode mode = defaultGatherMaskMode>
inline void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<U>& src1Pattern, const bool reduceMode,
                       const uint32_t mask, const GatherMaskParams& by, uint64_t& rsvdCnt) {
  simulator::takes<std::is_unsigned<U>::value && sizeof(U) == sizeof(T), U>("GatherMask with a pattern of type");
  uint64_t each = reduceMode ? mask : 256 / sizeof(T);
  if (simulator::isDry()) simulator::guess();  // how many elements it keeps
  for (uint32_t r = 0; r < by.repeatTimes; r++) {
    LocalTensor<U> own = src1Pattern;
    own.address += r * by.src1RepeatStride * 32u;
    simulator::source(simulator::V, own, (each + 7) / 8, "GatherMask");
  }
  rsvdCnt = simulator::keep(dst, src0, reduceMode, mask, by, [&](uint64_t r, uint64_t index) {
    const uint8_t* bits = reinterpret_cast<const uint8_t*>(src1Pattern.data()) + r * by.src1RepeatStride * 32;
    return bool((bits[index / 8] >> (index % 8)) & 1);
  });
}
inline int64_t GetGatherMaskRemainCount() {
  if (simulator::isDry()) simulator::guess();
  return int64_t(simulator::core->registers.kept);
}

// ---- not on this chip

template <typename T>
inline void Scatter(const LocalTensor<T>&, const LocalTensor<T>&, const LocalTensor<uint32_t>&, const uint32_t, const uint64_t,
                    const uint8_t, const uint8_t) {
  simulator::endRun("E-API-CHIP", "Scatter does not exist on this chip");
}
template <typename T>
inline void Scatter(const LocalTensor<T>&, const LocalTensor<T>&, const LocalTensor<uint32_t>&, const uint32_t, const uint64_t[],
                    const uint8_t, const uint8_t) {
  simulator::endRun("E-API-CHIP", "Scatter does not exist on this chip");
}
template <typename T>
inline void Scatter(const LocalTensor<T>&, const LocalTensor<T>&, const LocalTensor<uint32_t>&, const uint32_t, const uint32_t) {
  simulator::endRun("E-API-CHIP", "Scatter does not exist on this chip");
}

}  // namespace AscendC
