// Library functions that move or select elements: Broadcast, Pad, SelectWithBytesMask, DropOut, ArithProgression, TopK.
#pragma once
#include <numeric>

#include "choices.h"
#include "softmax.h"

namespace AscendC {

using tiling::PadTiling;
using tiling::TopkTiling;
using tiling::UnPadTiling;

struct PadParams {
  uint16_t leftPad = 0, rightPad = 0;
  int32_t padValue = 0;
  PadParams() {}
  PadParams(uint16_t left, uint16_t right, int32_t value) : leftPad(left), rightPad(right), padValue(value) {}
};
struct UnPadParams {
  uint16_t leftPad = 0, rightPad = 0;
  UnPadParams() {}
  UnPadParams(uint16_t left, uint16_t right) : leftPad(left), rightPad(right) {}
};
struct SelectWithBytesMaskShapeInfo {
  uint32_t firstAxis = 0, srcLastAxis = 0, maskLastAxis = 0;
};
struct DropOutShapeInfo {
  uint32_t firstAxis = 0, srcLastAxis = 0, maskLastAxis = 0;
};
struct TopKInfo {
  int32_t outter = 1, inner = 0, n = 0;  // number of rows; elements from row to row, of which the first n are used
};

}  // namespace AscendC

namespace simulator {

template <typename T> inline uint32_t wholeBlock(uint32_t elements) {
  constexpr uint32_t each = BLOCK / uint32_t(sizeof(T));
  return (elements + each - 1) / each * each;
}

template <typename T, int dims>
inline void broadcast(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const uint32_t dstShape[],
                      const uint32_t srcShape[]) {
  const char* what = "Broadcast";
  takes<Kind<T>::floats || sizeof(T) == 1 || sizeof(T) == 2, T>(what);
  uint64_t to = 1, from = 1;
  for (int i = 0; i < dims; i++) {
    if (srcShape[i] != dstShape[i] && srcShape[i] != 1)
      endRun("E-LIB-SHAPE", "Broadcast: axis %d has %u elements and the destination has %u: only an axis with 1 element can be repeated", i, srcShape[i],
           dstShape[i]);
    to *= dstShape[i];
    from *= srcShape[i];
  }
  vectorCost(to * sizeof(T), 2, 2 + int(std::min<uint64_t>(from, 64)));
  source(V, src, from * sizeof(T), what);
  target(V, dst, to * sizeof(T), what);
  for (uint64_t i = 0; i < to; i++) {
    uint64_t rest = i, at = 0, step = 1;
    for (int axis = dims - 1; axis >= 0; axis--) {
      uint64_t index = rest % dstShape[axis];
      rest /= dstShape[axis];
      at += (srcShape[axis] == 1 ? 0 : index) * step;
      step *= srcShape[axis];
    }
    dst.data()[i] = src.data()[at];
  }
}

// Takes the tensor where the mask is 0 and the scalar elsewhere, or the reverse.
template <typename T, typename U>
inline void selectByBytes(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, T scalar,
                          const AscendC::LocalTensor<U>& mask, bool tensorFirst, const AscendC::LocalTensor<uint8_t>& buffer,
                          const AscendC::SelectWithBytesMaskShapeInfo& info) {
  const char* what = "SelectWithBytesMask";
  takes<Kind<T>::floats && sizeof(U) <= 4, T>(what);
  Rows rows{info.firstAxis, info.srcLastAxis, info.srcLastAxis};
  alignedRows<T>(rows, what);
  if (info.maskLastAxis < info.srcLastAxis || info.maskLastAxis * sizeof(U) % BLOCK)
    endRun("E-LIB-SHAPE", "%s: a row of the mask has %u elements, but a row of the source has %u", what, info.maskLastAxis, info.srcLastAxis);
  scratch(buffer, 256, what);
  vectorCost(rows.elements() * sizeof(T), 4, 4);
  source(V, src, rows.elements() * sizeof(T), what);
  source(V, mask, uint64_t(info.firstAxis) * info.maskLastAxis * sizeof(U), what);
  target(V, dst, rows.elements() * sizeof(T), what);
  for (uint32_t row = 0; row < rows.count; row++)
    for (uint32_t i = 0; i < rows.width; i++) {
      bool masked = mask.data()[uint64_t(row) * info.maskLastAxis + i] != U(0);
      dst.data()[rows.at(row, i)] = masked == tensorFirst ? scalar : src.data()[rows.at(row, i)];
    }
}

// Keeps an element if its mask byte, or mask bit, is not 0, and multiplies it by 1 / keepProb.
template <typename T>
inline void dropOut(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::LocalTensor<uint8_t>& mask,
                    float keepProb, const AscendC::DropOutShapeInfo& info, uint32_t mode) {
  const char* what = "DropOut";
  takes<Kind<T>::floats, T>(what);
  Rows rows{info.firstAxis, info.srcLastAxis, info.srcLastAxis};
  alignedRows<T>(rows, what);
  bool bits = mode ? mode >= 3 : info.maskLastAxis < info.srcLastAxis;
  if (info.maskLastAxis * (bits ? 8u : 1u) < info.srcLastAxis)
    endRun("E-LIB-SHAPE", "DropOut: a row of the mask has %u bytes, but a row of the source has %u elements", info.maskLastAxis, info.srcLastAxis);
  vectorCost(rows.elements() * sizeof(T), 4, 4);
  source(V, src, rows.elements() * sizeof(T), what);
  source(V, mask, uint64_t(info.firstAxis) * info.maskLastAxis, what);
  target(V, dst, rows.elements() * sizeof(T), what);
  for (uint32_t row = 0; row < rows.count; row++)
    for (uint32_t i = 0; i < rows.width; i++) {
      uint8_t byte = mask.data()[uint64_t(row) * info.maskLastAxis + (bits ? i / 8 : i)];
      bool kept = bits ? (byte >> (i % 8)) & 1 : byte != 0;
      dst.data()[rows.at(row, i)] = T(kept ? float(src.data()[rows.at(row, i)]) / keepProb : 0.0f);
    }
}

template <typename T>
inline void topK(const AscendC::LocalTensor<T>& values, const AscendC::LocalTensor<int32_t>& indices, const AscendC::LocalTensor<T>& src,
                 const AscendC::LocalTensor<int32_t>* srcIndices, const AscendC::LocalTensor<bool>* finished, int32_t k,
                 const AscendC::TopKInfo& info, bool largest) {
  const char* what = "TopK";
  takes<Kind<T>::floats, T>(what);
  Rows rows{uint32_t(info.outter), uint32_t(info.inner), uint32_t(info.n)};
  alignedRows<T>(rows, what);
  if (k < 1 || k > info.n) endRun("E-LIB-SHAPE", "TopK: k = %d is outside 1..%d, the number of elements", k, info.n);
  if (info.inner % 32 || info.inner > 4096)
    reportViolation("E-LIB-ALIGN", "TopK: a row has %d elements, but must have a multiple of 32, at most 4096", info.inner);
  uint32_t valueStride = wholeBlock<T>(uint32_t(k)), indexStride = wholeBlock<int32_t>(uint32_t(k));
  double rounds = std::log2(std::max<double>(rows.stride / 32.0, 1));
  vectorCost(rows.elements() * 8, 4 + 4 * rounds, int(rows.count) * int(4 + rounds));
  source(V, src, rows.elements() * sizeof(T), what);
  if (srcIndices) source(V, *srcIndices, uint64_t(rows.stride) * sizeof(int32_t), what);
  if (finished) source(V, *finished, rows.count, what);
  target(V, values, uint64_t(rows.count) * valueStride * sizeof(T), what);
  target(V, indices, uint64_t(rows.count) * indexStride * sizeof(int32_t), what);
  std::vector<uint32_t> order(rows.width);
  for (uint32_t row = 0; row < rows.count; row++) {
    std::iota(order.begin(), order.end(), 0u);
    auto value = [&](uint32_t i) { return float(src.data()[rows.at(row, i)]); };
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return largest ? value(a) > value(b) : value(a) < value(b); });
    for (int32_t i = 0; i < k; i++) {
      bool done = finished && finished->data()[row];
      uint32_t at = order[size_t(i)];
      values.data()[uint64_t(row) * valueStride + uint32_t(i)] = src.data()[rows.at(row, at)];
      indices.data()[uint64_t(row) * indexStride + uint32_t(i)] = done ? info.n : srcIndices ? srcIndices->data()[at] : int32_t(at);
    }
  }
}

// The smallest temporary buffer of BroadCast: none to copy a tensor or to fill one with a single number, a block to repeat a row.
template <typename T, int dims> inline uint64_t broadcastScratch(const uint32_t* dstShape, const uint32_t* srcShape) {
  uint64_t from = 1, to = 1;
  for (int axis = 0; axis < dims; axis++) from *= srcShape[axis], to *= dstShape[axis];
  if (sizeof(T) == 1) return 256;
  return from == to || from == 1 ? 0 : dims == 2 && srcShape[1] == 1 ? 256 : BLOCK;
}

}  // namespace simulator

namespace AscendC {

#define SIMULATOR_BROADCAST(NAME)                                                                                                           \
  template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>                                                         \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim], const uint32_t srcShape[dim],   \
                   const LocalTensor<uint8_t>& sharedTmpBuffer) {                                                                      \
    static_assert(dim == 1 || dim == 2, "one or two axes");                                                                            \
    simulator::scratch(sharedTmpBuffer, simulator::broadcastScratch<T, dim>(dstShape, srcShape), #NAME);                                      \
    simulator::broadcast<T, dim>(dst, src, dstShape, srcShape);                                                                             \
  }                                                                                                                                    \
  template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>                                                         \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim], const uint32_t srcShape[dim]) { \
    static_assert(dim == 1 || dim == 2, "one or two axes");                                                                            \
    simulator::scratch(simulator::broadcastScratch<T, dim>(dstShape, srcShape), #NAME);                                                       \
    simulator::broadcast<T, dim>(dst, src, dstShape, srcShape);                                                                             \
  }
SIMULATOR_BROADCAST(Broadcast)
SIMULATOR_BROADCAST(BroadCast)
#undef SIMULATOR_BROADCAST

// ---- adding and removing padding at the ends of rows
template <typename T>
inline void Pad(const LocalTensor<T>& dst, const LocalTensor<T>& src, PadParams& params, const LocalTensor<uint8_t>& sharedTmpBuffer,
                PadTiling& tiling) {
  const char* what = "Pad";
  simulator::scratch(sharedTmpBuffer, 32, what);
  uint32_t width = tiling.srcOriWidth ? tiling.srcOriWidth : tiling.srcWidth,
           wide = simulator::wholeBlock<T>(width + params.leftPad + params.rightPad);
  simulator::Rows rows{tiling.srcHeight, tiling.srcWidth, width};
  if (!rows.count || !rows.stride) simulator::endRun("E-LIB-SHAPE", "Pad: the tensor has %u rows of %u elements; both must be above 0", rows.count, rows.stride);
  if (params.leftPad * sizeof(T) > 32 || params.rightPad * sizeof(T) > 32)
    simulator::reportViolation("E-LIB-SHAPE", "Pad: the padding is more than 32 bytes on one side");
  simulator::vectorCost(uint64_t(rows.count) * wide * sizeof(T), 3, 4);
  simulator::source(simulator::V, src, rows.elements() * sizeof(T), what);
  simulator::target(simulator::V, dst, uint64_t(rows.count) * wide * sizeof(T), what);
  for (uint32_t row = 0; row < rows.count; row++)
    for (uint32_t i = 0; i < wide; i++) {
      bool inside = i >= params.leftPad && i < params.leftPad + width;
      dst.data()[uint64_t(row) * wide + i] = inside ? src.data()[rows.at(row, i - params.leftPad)] : T(params.padValue);
    }
}
template <typename T> inline void Pad(const LocalTensor<T>& dst, const LocalTensor<T>& src, PadParams& params, PadTiling& tiling) {
  Pad(dst, src, params, LocalTensor<uint8_t>(TPosition::VECCALC, uint32_t(simulator::chip().ub_bytes) - 256, 256), tiling);
}
template <typename T>
inline void UnPad(const LocalTensor<T>& dst, const LocalTensor<T>& src, UnPadParams& params, LocalTensor<uint8_t>& sharedTmpBuffer,
                  UnPadTiling& tiling) {
  const char* what = "UnPad";
  simulator::scratch(sharedTmpBuffer, 32, what);
  simulator::Rows rows{tiling.srcHeight, tiling.srcWidth, tiling.srcWidth};
  simulator::alignedRows<T>(rows, what);
  uint32_t cut = uint32_t(params.leftPad) + params.rightPad;
  if (cut >= rows.width) simulator::endRun("E-LIB-SHAPE", "UnPad: it would remove %u of %u elements of a row", cut, rows.width);
  uint32_t wide = rows.width - cut;
  simulator::vectorCost(rows.elements() * sizeof(T), 3, 4);
  simulator::source(simulator::V, src, rows.elements() * sizeof(T), what);
  simulator::target(simulator::V, dst, uint64_t(rows.count) * wide * sizeof(T), what);
  for (uint32_t row = 0; row < rows.count; row++)
    for (uint32_t i = 0; i < wide; i++) dst.data()[uint64_t(row) * wide + i] = src.data()[rows.at(row, i + params.leftPad)];
}
template <typename T> inline void UnPad(const LocalTensor<T>& dst, const LocalTensor<T>& src, UnPadParams& params, UnPadTiling& tiling) {
  LocalTensor<uint8_t> scratch(TPosition::VECCALC, uint32_t(simulator::chip().ub_bytes) - 256, 256);
  UnPad(dst, src, params, scratch, tiling);
}

// ---- selection
#define SIMULATOR_SELECT(NAME)                                                                                     \
  template <typename T, typename U, bool isReuseMask = true>                                                  \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, T src1, const LocalTensor<U>& mask, \
                   const LocalTensor<uint8_t>& sharedTmpBuffer, const SelectWithBytesMaskShapeInfo& info) {   \
    simulator::selectByBytes(dst, src0, src1, mask, true, sharedTmpBuffer, info);                                  \
  }                                                                                                           \
  template <typename T, typename U, bool isReuseMask = true>                                                  \
  inline void NAME(const LocalTensor<T>& dst, T src0, const LocalTensor<T>& src1, const LocalTensor<U>& mask, \
                   const LocalTensor<uint8_t>& sharedTmpBuffer, const SelectWithBytesMaskShapeInfo& info) {   \
    simulator::selectByBytes(dst, src1, src0, mask, false, sharedTmpBuffer, info);                                 \
  }
SIMULATOR_SELECT(SelectWithBytesMask)
SIMULATOR_SELECT(Select)
#undef SIMULATOR_SELECT

template <typename T, bool isInitBitMode = false, uint32_t dropOutMode = 0>
inline void DropOut(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& mask,
                    const LocalTensor<uint8_t>& sharedTmpBuffer, const float keepProb, const DropOutShapeInfo& info) {
  simulator::scratch(sharedTmpBuffer, 256, "DropOut");
  simulator::dropOut(dst, src, mask, keepProb, info, dropOutMode);
}
template <typename T, bool isInitBitMode = false, uint32_t dropOutMode = 0>
inline void DropOut(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& mask, const float keepProb,
                    const DropOutShapeInfo& info) {
  simulator::scratch(256, "DropOut");
  simulator::dropOut(dst, src, mask, keepProb, info, dropOutMode);
}

// ---- arithmetic progressions: first, first + difference, ...
template <typename T> inline void Arange(const LocalTensor<T>& dst, const T firstValue, const T diffValue, const int32_t count) {
  ArithProgression<T>(dst, firstValue, diffValue, count);
}

// ---- the largest k of each row
template <typename T, bool isInitIndex = false, bool isHasfinish = false, bool isReuseSrc = false,
          enum TopKMode topkMode = TopKMode::TOPK_NORMAL>
inline void TopK(const LocalTensor<T>& dstValue, const LocalTensor<int32_t>& dstIndex, const LocalTensor<T>& src,
                 const LocalTensor<int32_t>& srcIndex, const LocalTensor<bool>& finish, const LocalTensor<uint8_t>& tmp, const int32_t k,
                 const TopkTiling&, const TopKInfo& info, const bool isLargest = true) {
  simulator::scratch(tmp, 256, "TopK");
  simulator::topK(dstValue, dstIndex, src, isInitIndex ? &srcIndex : nullptr, isHasfinish ? &finish : nullptr, k, info, isLargest);
}
template <typename T, bool isInitIndex = false, bool isHasfinish = false, bool isReuseSrc = false,
          enum TopKMode topkMode = TopKMode::TOPK_NORMAL>
inline void TopK(const LocalTensor<T>& dstValue, const LocalTensor<int32_t>& dstIndex, const LocalTensor<T>& src,
                 const LocalTensor<int32_t>& srcIndex, const LocalTensor<bool>& finish, const int32_t k, const TopkTiling&,
                 const TopKInfo& info, const bool isLargest = true) {
  simulator::scratch(256, "TopK");
  simulator::topK(dstValue, dstIndex, src, isInitIndex ? &srcIndex : nullptr, isHasfinish ? &finish : nullptr, k, info, isLargest);
}

}  // namespace AscendC
