// The lanes of a vector instruction: the elements of an operand that its mask, repeats and strides select.
#pragma once
#include <array>

#include "tensors.h"

namespace simulator {

// ---- masks and their lanes

inline Mask lanes(uint64_t count) {
  return {count >= 64 ? ~0ull : (1ull << count) - 1, count <= 64 ? 0 : count >= 128 ? ~0ull : (1ull << (count - 64)) - 1};
}

// The work of an instruction: the lanes of each repeat, or in counter mode a number of elements over as many repeats as necessary.
struct Lanes {
  Mask mask;
  uint64_t elements = 0;
  bool counted = false;
};
template <typename T, bool isSetMask = true> inline Lanes maskOf(uint64_t count, const char* what) {
  if (core->maskCounts) {
    if (isSetMask) core->maskElements = core->mask.low = count;
    return {Mask(), core->maskElements, true};
  }
  if (isSetMask) {
    uint64_t most = 256 / sizeof(T);
    if (count < 1 || count > most)
      reportViolation("E-MASK", "%s: the mask %llu is outside 1..%llu for %s", what, (unsigned long long)count, (unsigned long long)most, typeName<T>());
    core->mask = lanes(std::min(count, most));
    core->maskElements = core->mask.low & 0xffffffff;
  }
  return {core->mask};
}
template <typename T, bool isSetMask = true> inline Lanes maskOf(const uint64_t bits[], const char* what) {
  if (core->maskCounts) {
    if (isSetMask) core->maskElements = core->mask.low = bits[0];
    return {Mask(), core->maskElements, true};
  }
  if (isSetMask) {
    if (sizeof(T) >= 4 && bits[1])
      reportViolation("E-MASK-HIGH", "%s: mask[1] must be 0 for %s, which has %zu lanes", what, typeName<T>(), 256 / sizeof(T));
    if (!bits[0] && !bits[1]) reportViolation("E-MASK", "%s: the mask selects no lane", what);
    core->mask = {bits[0], sizeof(T) >= 4 ? 0 : bits[1]};
    core->maskElements = bits[0] & 0xffffffff;
  }
  return {core->mask};
}
// An overload with a count sets the mask register itself, and resets it to all lanes and normal mode.
inline void forgetMask() {
  core->maskElements = 0xffffffff;
  core->mask = Mask();
  core->maskCounts = false;
}

inline void repeats(int count, const char* what) {
  if (count < 1 || count > 255) reportViolation("E-REPEAT", "%s: %d repeats are outside 1..255", what, count);
}

struct Work {  // all repeats are equal except the last
  Mask mask, last;
  int repeats;
  const Mask& of(int repeat) const { return repeat + 1 < repeats ? mask : last; }
};
inline Mask within(const Mask& mask, int width) {
  Mask all = lanes(uint64_t(width));
  return {mask.low & all.low, mask.high & all.high};
}
inline Work workOf(const Lanes& given, int count, int width, const char* what) {
  if (!given.counted) {
    repeats(count, what);
    Mask mask = within(given.mask, width);
    return {mask, mask, count};
  }
  if (!given.elements) reportViolation("E-COUNT", "%s in counter mode: the mask is 0 elements", what);
  uint64_t whole = uint64_t(width), needed = (given.elements + whole - 1) / whole;
  return {lanes(whole), lanes(given.elements - (needed ? needed - 1 : 0) * whole), int(needed)};
}

struct Stride {
  uint32_t block, repeat;  // in blocks of 32 bytes
};

// The element of a lane in a repeat.
template <typename T> inline uint64_t element(int repeat, int lane, Stride by) {
  constexpr int perBlock = 32 / sizeof(T);
  return (uint64_t(repeat) * by.repeat + uint64_t(lane / perBlock) * by.block) * perBlock + uint64_t(lane % perBlock);
}
inline int lastLane(const Mask& mask) { return mask.high ? 127 - __builtin_clzll(mask.high) : mask.low ? 63 - __builtin_clzll(mask.low) : 0; }
inline bool solid(const Mask& mask) {  // contiguous lanes from the first one
  return mask.high ? mask.low == ~0ull && !(mask.high & (mask.high + 1)) : !(mask.low & (mask.low + 1));
}
template <typename T> inline uint64_t span(const Mask& mask, int repeats, Stride by) {  // bytes from the first to the end of the last element
  uint64_t widest = element<T>(0, lastLane(mask), by);
  return (uint64_t(std::max(repeats - 1, 0)) * by.repeat * (32 / sizeof(T)) + widest + 1) * sizeof(T);
}

// Records access to exactly the lanes that an instruction uses.
template <typename T>
inline void lanesOperand(const AscendC::LocalTensor<T>& tensor, const Mask& mask, int count, Stride by, bool writes, const char* what) {
  uint64_t bytes = span<T>(mask, count, by);
  constexpr int perBlock = 32 / sizeof(T), blocks = 8;
  bool isFull = uint64_t(lastLane(mask) + 1) * sizeof(T) == uint64_t(by.repeat) * BLOCK;
  if (solid(mask) && by.block == 1 && (count == 1 || isFull)) return operand(V, tensor, bytes, writes, what);
  if (__builtin_expect(!tensor.allocated || tensor.address < tensor.low || tensor.address + bytes > tensor.high || tensor.address % BLOCK, 0))
    operand(V, tensor, bytes, true, what);  // reports the violation
  if (core->checksLess && !(writes && run.isDry)) return;  // nothing is recorded
  if (!by.repeat) count = std::min(count, 1);  // every repeat uses the same lanes
  bool isJoined = solid(mask) && by.block == 1;
  for (int r = 0; r < count; r++) {
    if (isJoined) {
      uint32_t start = tensor.address + uint32_t(element<T>(r, 0, by) * sizeof(T));
      uint64_t wide = uint64_t(lastLane(mask) + 1) * sizeof(T);
      if (writes || core->canRead(V, start, wide)) {
        core->touch(V, start, wide, writes, what);
        continue;
      }
    }
    for (int b = 0; b < blocks; b++) {
      int from = -1, to = -1;
      for (int lane = b * perBlock; lane < (b + 1) * perBlock && lane < 128; lane++)
        if (mask.on(lane)) from = from < 0 ? lane : from, to = lane;
      if (from < 0) continue;
      uint32_t address = tensor.address + uint32_t(element<T>(r, from, by) * sizeof(T));
      uint64_t wide = uint64_t(to - from + 1) * sizeof(T);
      if (!writes) core->reads(address, wide, what);
      core->touch(V, address, wide, writes, what);
      if (!by.block && wide == BLOCK) break;  // every block of lanes is this one
    }
  }
}
template <typename T>
inline void lanesOperand(const AscendC::LocalTensor<T>& tensor, const Work& work, Stride by, bool writes, const char* what) {
  if (work.repeats <= 0) return;
  bool alike = work.mask.low == work.last.low && work.mask.high == work.last.high;
  if (alike || work.repeats == 1) return lanesOperand(tensor, work.last, work.repeats, by, writes, what);
  lanesOperand(tensor, work.mask, work.repeats - 1, by, writes, what);
  AscendC::LocalTensor<T> tail = tensor;
  tail.address += uint32_t(work.repeats - 1) * by.repeat * BLOCK;
  lanesOperand(tail, work.last, 1, by, writes, what);
}

// ---- sources overwritten by an earlier repeat

struct Place {  // byte range of an operand
  uint32_t address, size;
  Stride by;
};
template <typename Each> inline void bytesOf(const Place& place, const Work& work, int repeat, Each each) {
  uint32_t width = 256 / place.size;
  for (uint32_t lane = 0; lane < width && lane < 128; lane++) {
    if (!work.of(repeat).on(int(lane))) continue;
    uint32_t skip = lane * place.size;
    uint32_t start = place.address + (uint32_t(repeat) * place.by.repeat + skip / BLOCK * place.by.block) * BLOCK + skip % BLOCK;
    for (uint32_t byte = 0; byte < place.size; byte++) each(start + byte);
  }
}
// Whether no repeat reads what an earlier one wrote was found for the same operands relative to each other: a loop asks again and again.
class KnownApart {
 public:
  KnownApart(const Place& to, const Place& from, const Work& work)
      : key{to.address - from.address, to.size,      from.size,     to.by.block,    to.by.repeat,  from.by.block,
            from.by.repeat,            work.mask.low, work.mask.high, work.last.low, work.last.high, uint64_t(work.repeats)} {
    for (uint64_t part : key) hash = (hash ^ part) * 1099511628211ull;
  }
  bool isKnown() const { return table()[hash >> 58] == key; }
  void keep() const { table()[hash >> 58] = key; }

 private:
  std::array<uint64_t, 12> key;
  uint64_t hash = 1469598103934665603ull;
  static std::array<std::array<uint64_t, 12>, 64>& table() {
    static std::array<std::array<uint64_t, 12>, 64> all{};
    return all;
  }
};
__attribute__((cold, noinline)) inline void overlap(const Place& to, const Place& from, const Work& work, const char* what) {
  KnownApart known(to, from, work);
  if (known.isKnown()) return;
  static std::vector<uint16_t> writtenIn;
  constexpr uint16_t NEVER = 0xffff;
  bool isApart = true;
  writtenIn.assign(SPACE_START[UB + 1], NEVER);
  for (int r = 0; r < work.repeats; r++) {
    bytesOf(from, work, r, [&](uint32_t byte) {
      if (byte >= writtenIn.size()) isApart = false;
      if (byte >= writtenIn.size() || writtenIn[byte] == NEVER) return;
      isApart = false;
      reportViolation("E-OVERLAP", "%s: repeat %d reads its source at %s address %u, which repeat %d has overwritten", what, r, spaceName(spaceOf(byte)),
               inSpace(byte), writtenIn[byte]);
    });
    bytesOf(to, work, r, [&](uint32_t byte) {
      if (byte < writtenIn.size()) writtenIn[byte] = uint16_t(r);
      else isApart = false;
    });
  }
  if (isApart) known.keep();
}
inline void apart(const Place& to, const Place& from, const Work& work, const char* what) {
  if (to.address == from.address && to.size == from.size && to.by.block == from.by.block && to.by.repeat == from.by.repeat) return;
  uint32_t toEnd = to.address + uint32_t(work.repeats) * to.by.repeat * BLOCK + 8 * to.by.block * BLOCK;
  uint32_t fromEnd = from.address + uint32_t(work.repeats) * from.by.repeat * BLOCK + 8 * from.by.block * BLOCK;
  if (__builtin_expect(work.repeats > 1 && to.address < fromEnd && from.address < toEnd && level != FAST, 0)) overlap(to, from, work, what);
}
template <typename T> inline Place placeOf(const AscendC::LocalTensor<T>& tensor, Stride by) { return {tensor.address, uint32_t(sizeof(T)), by}; }
// The same for a count of contiguous elements.
template <typename D, typename T>
inline void apart(const AscendC::LocalTensor<D>& to, const AscendC::LocalTensor<T>& from, int64_t count, const char* what) {
  if (__builtin_expect(to.address < from.address + uint64_t(count) * sizeof(T) && from.address < to.address + uint64_t(count) * sizeof(D) &&
                           (to.address != from.address || sizeof(T) != sizeof(D)), 0)) {
    constexpr uint32_t width = uint32_t(256 / std::max(sizeof(T), sizeof(D)));
    Work work = workOf({Mask(), uint64_t(count), true}, 1, int(width), what);
    apart(placeOf(to, {1, width * uint32_t(sizeof(D)) / BLOCK}), placeOf(from, {1, width * uint32_t(sizeof(T)) / BLOCK}), work, what);
  }
}

}  // namespace simulator
