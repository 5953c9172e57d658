// Copies of slices: a strided range of every axis, and pieces of complete blocks of the innermost axis. Each row is one plain copy.
#pragma once
#include "copy.h"

namespace AscendC {

struct SliceInfo {
  uint32_t startIndex = 0, endIndex = 0, stride = 0, burstLen = 0, shapeValue = 0;  // endIndex is inclusive; stride is the gap between pieces
  constexpr SliceInfo() = default;
  constexpr SliceInfo(uint32_t start, uint32_t end, uint32_t between, uint32_t blocks, uint32_t whole = 0)
      : startIndex(start), endIndex(end), stride(between), burstLen(blocks), shapeValue(whole) {}
};

}  // namespace AscendC

namespace simulator {

struct Slices {
  std::vector<uint64_t> rows;  // start of each row, in elements
  uint64_t pieces = 0, length = 0, gap = 0;
};

inline Slices slicesOf(const AscendC::SliceInfo info[], uint32_t axes, uint64_t perBlock, const char* what) {
  Slices found;
  const AscendC::SliceInfo& inner = info[0];
  found.length = inner.burstLen * perBlock;
  found.gap = inner.stride;
  if (inner.endIndex < inner.startIndex || !found.length) endRun("E-COPY-LENGTH", "%s: invalid slice from %u to %u in pieces of %u blocks", what, inner.startIndex, inner.endIndex, inner.burstLen);
  found.pieces = (inner.endIndex - inner.startIndex + 1 + found.gap) / (found.length + found.gap);
  found.rows.push_back(inner.startIndex);
  uint64_t step = inner.shapeValue;
  for (uint32_t axis = 1; axis < axes; axis++) {
    std::vector<uint64_t> rows;
    for (uint64_t i = info[axis].startIndex; i <= info[axis].endIndex; i += 1 + info[axis].stride)
      for (uint64_t row : found.rows) rows.push_back(row + i * step);
    found.rows = rows;
    step *= info[axis].shapeValue;
  }
  return found;
}

// Both sides must have the same number of equal pieces.
inline void sameSlices(const Slices& to, const Slices& from, const char* what) {
  counted(from.pieces, 4095, what);
  if (to.rows.size() != from.rows.size() || to.pieces != from.pieces || to.length != from.length)
    endRun("E-COPY-COUNT", "%s: source slice %zu x %llu pieces of %llu elements does not match destination slice %zu x %llu pieces of %llu", what, from.rows.size(), (unsigned long long)from.pieces,
         (unsigned long long)from.length, to.rows.size(), (unsigned long long)to.pieces, (unsigned long long)to.length);
}

template <typename T> inline Strided stridedBy(const Slices& from, const Slices& to) {
  return {from.pieces, from.length * sizeof(T), from.gap * sizeof(T), to.gap * sizeof(T)};
}

}  // namespace simulator

namespace AscendC {

template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const SliceInfo dstSliceInfo[], const SliceInfo srcSliceInfo[],
                     const uint32_t dimValue = 1) {
  const char* what = "DataCopy GM->UB of slices";
  simulator::Slices to = simulator::slicesOf(dstSliceInfo, dimValue, 32 / sizeof(T), what), from = simulator::slicesOf(srcSliceInfo, dimValue, 32 / sizeof(T), what);
  simulator::sameSlices(to, from, what);
  for (size_t i = 0; i < to.rows.size(); i++) simulator::copyIn(dst[to.rows[i]], src[from.rows[i]], simulator::stridedBy<T>(from, to), what);
}
template <typename T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const SliceInfo dstSliceInfo[], const SliceInfo srcSliceInfo[],
                     const uint32_t dimValue = 1) {
  const char* what = "DataCopy UB->GM of slices";
  simulator::Slices to = simulator::slicesOf(dstSliceInfo, dimValue, 32 / sizeof(T), what), from = simulator::slicesOf(srcSliceInfo, dimValue, 32 / sizeof(T), what);
  simulator::sameSlices(to, from, what);
  for (size_t i = 0; i < to.rows.size(); i++) simulator::copyOut(dst[to.rows[i]], src[from.rows[i]], simulator::stridedBy<T>(from, to), what);
}

}  // namespace AscendC
