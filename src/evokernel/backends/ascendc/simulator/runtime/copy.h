// DataCopy and DataCopyPad between global memory and UB, and within UB. Lengths and gaps count in different units on each side.
#pragma once
#include "doubt.h"

namespace AscendC {

struct DataCopyParams {
  uint16_t blockCount = 1, blockLen = 0;
  union {
    uint16_t srcStride = 0;
    uint16_t srcGap;
  };
  union {
    uint16_t dstStride = 0;
    uint16_t dstGap;
  };
  DataCopyParams() {}
  DataCopyParams(uint16_t count, uint16_t length, uint16_t from, uint16_t to) : blockCount(count), blockLen(length), srcStride(from), dstStride(to) {}
};
struct DataCopyExtParams {
  uint16_t blockCount = 1;
  uint32_t blockLen = 0, srcStride = 0, dstStride = 0, rsv = 0;
  DataCopyExtParams() {}
  DataCopyExtParams(uint16_t count, uint32_t length, uint32_t from, uint32_t to, uint32_t reserved)
      : blockCount(count), blockLen(length), srcStride(from), dstStride(to), rsv(reserved) {}
};
struct DataCopyPadParams {
  bool isPad = false;
  uint8_t leftPadding = 0, rightPadding = 0;
  uint64_t paddingValue = 0;
  DataCopyPadParams() {}
  DataCopyPadParams(bool pad, uint8_t left, uint8_t right, uint64_t value) : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}
};
template <typename T> struct DataCopyPadExtParams {
  bool isPad = false;
  uint8_t leftPadding = 0, rightPadding = 0;
  T paddingValue = T(0);
  DataCopyPadExtParams() {}
  DataCopyPadExtParams(bool pad, uint8_t left, uint8_t right, T value) : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}
};
struct DataCopyEnhancedParams {
  int blockMode = 0, deqScale = 0;
  uint64_t deqValue = 0;
  uint8_t sidStoreMode = 0;
  bool isRelu = false;
};

}  // namespace AscendC

namespace simulator {

// The hardware moves complete blocks of 32 bytes and drops the remainder.
inline uint64_t wholeBlocks(uint64_t bytes, const char* what) {
  if (__builtin_expect(bytes % BLOCK != 0, 0))
    reportViolation("E-COPY-32", "%s: %llu bytes are not a multiple of 32, so it moves only %llu", what, (unsigned long long)bytes,
           (unsigned long long)(bytes / BLOCK * BLOCK));
  return bytes / BLOCK * BLOCK;
}

// One contiguous range from local to global memory, which an atomic operation may combine with the existing data.
template <typename T> inline void store(T* to, const T* from, uint64_t bytes) {
  if (core->atomic == Atomic::NONE) {
    memcpy(to, from, bytes);
    return;
  }
  for (uint64_t i = 0; i < bytes / sizeof(T); i++) {
    float was = float(to[i]), is = float(from[i]);
    if (core->atomic == Atomic::ADD) to[i] = T(to[i] + from[i]);
    else to[i] = (core->atomic == Atomic::MAX) == (is > was) ? from[i] : to[i];
  }
}

struct Strided {  // one copy of several ranges, in bytes
  uint64_t count, length, fromGap, toGap;
};

template <typename T> inline void copyIn(const AscendC::LocalTensor<T>& to, const AscendC::GlobalTensor<T>& from, const Strided& by, const char* what) {
  core->move(MTE2, from.rows(by.count, by.length, by.fromGap));
  AscendC::LocalTensor<T> part = to;
  for (uint64_t i = 0; i < by.count; i++) {
    uint64_t skip = i * (by.length + by.fromGap);
    from.check(int64_t(skip), by.length, what);
    from.gives(int64_t(skip), by.length, what);
    part.address = to.address + uint32_t(i * (by.length + by.toGap));
    target(MTE2, part, by.length, what);
    if (isDry()) continue;
    memcpy(part.data(), reinterpret_cast<const uint8_t*>(from.data()) + skip, by.length);
  }
}

template <typename T> inline void copyOut(const AscendC::GlobalTensor<T>& to, const AscendC::LocalTensor<T>& from, const Strided& by, const char* what) {
  core->move(MTE3, to.rows(by.count, by.length, by.toGap));
  to.writes(what);
  bool isStored = false;
  AscendC::LocalTensor<T> part = from;
  for (uint64_t i = 0; i < by.count; i++) {
    uint64_t skip = i * (by.length + by.toGap);
    to.check(int64_t(skip), by.length, what);
    part.address = from.address + uint32_t(i * (by.length + by.fromGap));
    source(MTE3, part, by.length, what);
    if (core->atomic == Atomic::NONE) to.receives(int64_t(skip), part.data(), by.length, what);
    else to.gives(int64_t(skip), by.length, what);
    if (!to.stores(int64_t(skip), by.length)) continue;
    store(reinterpret_cast<T*>(reinterpret_cast<uint8_t*>(to.data()) + skip), part.data(), by.length);
    isStored = true;
  }
  if (level != HARDWARE || !isStored || !by.length) return;
  StridedBytes local{from.address, by.count, by.length, by.length + by.fromGap}, global{to.base, by.count, by.length, by.length + by.toGap};
  core->pendingCopies.add({local, global, core->epoch[MTE3], core->started[MTE3], core->time[MTE3], core->atomic != Atomic::NONE});
}

// The pipe that moves data between two local memories.
inline int betweenPipe(uint32_t from, uint32_t to) {
  int source = spaceOf(from), target = spaceOf(to);
  if (source == UB) return target == UB ? V : MTE3;
  return target == FB ? FIX : MTE1;
}
// The unit of blockLen: a block, except in the table of biases and in the buffer of scales.
inline uint64_t unitBytes(uint32_t to) { return spaceOf(to) == BT ? 64 : spaceOf(to) == FB ? 128 : BLOCK; }
inline void betweenCost(int pipe, uint64_t bytes) {
  if (pipe == V) vectorCost(bytes, 1);
  else core->issue(pipe, 20 + double(bytes) / chip().l1_to_l0_bytes_per_cycle, 20);
}

inline void counted(uint64_t count, uint64_t most, const char* what) {
  if (count > most) reportViolation("E-COPY-COUNT", "%s: blockCount %llu is above %llu", what, (unsigned long long)count, (unsigned long long)most);
}

// The fill value of a row up to complete blocks: the value given here or by SetPadValue; without either the first element of the row, or, if the caller
// requests padding, an undefined value: a number that is easy to notice.
template <typename T, class Pad> inline T filling(const Pad& pad, const uint8_t* row, uint64_t length) {
  T filler = T(0);
  if (pad.isPad) filler = T(pad.paddingValue);
  else if (core->registers.hasPad) memcpy(static_cast<void*>(&filler), &core->registers.pad, sizeof(T));
  else if (pad.leftPadding || pad.rightPadding) memset(static_cast<void*>(&filler), 0x5A, sizeof(T));
  else memcpy(static_cast<void*>(&filler), row, std::min<uint64_t>(length, sizeof(T)));
  return filler;
}

// Lengths in GM are bytes; rows in UB start at complete blocks, and the rest of a row is filled.
template <typename T, class Pad> inline void padIn(const AscendC::LocalTensor<T>& to, const AscendC::GlobalTensor<T>& from, uint64_t count,
                                                   uint64_t length, uint64_t fromGap, uint64_t toGapBlocks, const Pad& pad) {
  const char* what = "DataCopyPad GM->UB";
  counted(count, 4095, what);
  if (length > 2097151) reportViolation("E-COPY-LENGTH", "%s: blockLen %llu is above 2097151 bytes", what, (unsigned long long)length);
  if (pad.leftPadding * sizeof(T) > 32 || pad.rightPadding * sizeof(T) > 32)
    reportViolation("E-COPY-PAD", "%s: padding of %d elements on the left and %d on the right exceeds 32 bytes on a side", what, pad.leftPadding, pad.rightPadding);
  if (!count || !length) return;
  core->move(MTE2, from.rows(count, length, fromGap));
  uint64_t left = pad.leftPadding * sizeof(T), right = pad.rightPadding * sizeof(T);
  uint64_t row = (left + length + right + BLOCK - 1) / BLOCK * BLOCK;
  AscendC::LocalTensor<T> part = to;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t skip = i * (length + fromGap);
    from.check(int64_t(skip), length, what);
    from.gives(int64_t(skip), length, what);
    part.address = to.address + uint32_t(i * (row + toGapBlocks * BLOCK));
    target(MTE2, part, row, what);
    if (isDry()) continue;
    T* into = part.data();
    const uint8_t* given = reinterpret_cast<const uint8_t*>(from.data()) + skip;
    if (length < row) std::fill_n(into, row / sizeof(T), filling<T>(pad, given, length));
    memcpy(reinterpret_cast<uint8_t*>(into) + left, given, length);
  }
}

template <typename T> inline void padOut(const AscendC::GlobalTensor<T>& to, const AscendC::LocalTensor<T>& from, uint64_t count, uint64_t length,
                                         uint64_t fromGapBlocks, uint64_t toGap) {
  const char* what = "DataCopyPad UB->GM";
  counted(count, 4095, what);
  if (length > 2097151) reportViolation("E-COPY-LENGTH", "%s: blockLen %llu is above 2097151 bytes", what, (unsigned long long)length);
  if (!count || !length) return;
  uint64_t row = (length + BLOCK - 1) / BLOCK * BLOCK;
  copyOut(to, from, {count, length, row - length + fromGapBlocks * BLOCK, toGap}, what);
}

}  // namespace simulator

namespace AscendC {

template <typename T> inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count) {
  const char* what = "DataCopy GM->UB";
  if (simulator::nothing(count, what)) return;
  simulator::copyIn(dst, src, {1, simulator::wholeBlocks(uint64_t(count) * sizeof(T), what), 0, 0}, what);
}
template <typename T> inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count) {
  const char* what = "DataCopy UB->GM";
  if (simulator::nothing(count, what)) return;
  simulator::copyOut(dst, src, {1, simulator::wholeBlocks(uint64_t(count) * sizeof(T), what), 0, 0}, what);
}
template <typename T> inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& by) {
  simulator::counted(by.blockCount, 4095, "DataCopy GM->UB");
  if (!by.blockCount || !by.blockLen) return;
  simulator::copyIn(dst, src, {by.blockCount, by.blockLen * 32ull, by.srcStride * 32ull, by.dstStride * 32ull}, "DataCopy GM->UB");
}
template <typename T> inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& by) {
  simulator::counted(by.blockCount, 4095, "DataCopy UB->GM");
  if (!by.blockCount || !by.blockLen) return;
  simulator::copyOut(dst, src, {by.blockCount, by.blockLen * 32ull, by.srcStride * 32ull, by.dstStride * 32ull}, "DataCopy UB->GM");
}
template <typename T> inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& by) {
  const char* what = "DataCopy UB->UB";
  uint64_t length = by.blockLen * simulator::unitBytes(dst.address);
  int pipe = simulator::betweenPipe(src.address, dst.address);
  simulator::betweenCost(pipe, length * by.blockCount);
  LocalTensor<T> from = src, to = dst;
  for (uint64_t i = 0; i < by.blockCount; i++) {
    from.address = src.address + uint32_t(i * (length + by.srcStride * 32ull));
    to.address = dst.address + uint32_t(i * (length + by.dstStride * 32ull));
    simulator::Doubt().moves(pipe, from, to, length, what);
  }
}
// Biases of half precision become float on their way from L1 to the table of biases.
template <typename T, typename U, typename = std::enable_if_t<std::is_same<T, float>::value && simulator::Kind<U>::f16>>
inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const DataCopyParams& by) {
  const char* what = "DataCopy L1->BT";
  if (simulator::spaceOf(src.address) != simulator::L1 || simulator::spaceOf(dst.address) != simulator::BT)
    simulator::endRun("E-DTYPE", "DataCopy converts half to float only from L1 (C1) to the table of biases (C2): use Cast");
  uint64_t count = by.blockLen * simulator::unitBytes(dst.address) / sizeof(U);
  simulator::betweenCost(simulator::MTE1, count * sizeof(T) * by.blockCount);
  for (uint64_t i = 0; i < by.blockCount; i++) {
    LocalTensor<U> from = src;
    LocalTensor<T> to = dst;
    from.address = src.address + uint32_t(i * (count * sizeof(U) + by.srcStride * 32ull));
    to.address = dst.address + uint32_t(i * (count * sizeof(T) + by.dstStride * 32ull));
    simulator::source(simulator::MTE1, from, count * sizeof(U), what);
    simulator::target(simulator::MTE1, to, count * sizeof(T), what);
    for (uint64_t k = 0; k < count && !simulator::isDry(); k++) to.data()[k] = float(from.data()[k]);
  }
}
template <typename T> inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count) {
  const char* what = "DataCopy UB->UB";
  if (simulator::nothing(count, what)) return;
  uint64_t bytes = simulator::wholeBlocks(uint64_t(count) * sizeof(T), what);
  int pipe = simulator::betweenPipe(src.address, dst.address);
  simulator::betweenCost(pipe, bytes);
  simulator::Doubt().moves(pipe, src, dst, bytes, what);
}

template <typename T> inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& by, const DataCopyPadExtParams<T>& pad) {
  simulator::padIn(dst, src, by.blockCount, by.blockLen, by.srcStride, by.dstStride, pad);
}
template <typename T> inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& by, const DataCopyPadParams& pad) {
  simulator::padIn(dst, src, by.blockCount, by.blockLen, by.srcStride, by.dstStride, pad);
}
template <typename T> inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& by) {
  simulator::padOut(dst, src, by.blockCount, by.blockLen, by.srcStride, by.dstStride);
}
template <typename T> inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& by) {
  simulator::padOut(dst, src, by.blockCount, by.blockLen, by.srcStride, by.dstStride);
}

}  // namespace AscendC
