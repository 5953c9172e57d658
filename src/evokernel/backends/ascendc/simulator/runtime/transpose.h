// Transposition.
#pragma once
#include "vector.h"

namespace AscendC {

constexpr int32_t NCHW_CONV_ADDR_LIST_SIZE = 16;
enum class TransposeType : uint8_t {
  TRANSPOSE_TYPE_NONE, TRANSPOSE_NZ2ND_0213, TRANSPOSE_NZ2NZ_0213, TRANSPOSE_NZ2NZ_012_WITH_N, TRANSPOSE_NZ2ND_012_WITH_N,
  TRANSPOSE_NZ2ND_012_WITHOUT_N, TRANSPOSE_NZ2NZ_012_WITHOUT_N, TRANSPOSE_ND2ND_ONLY, TRANSPOSE_ND_UB_GM, TRANSPOSE_GRAD_ND_UB_GM,
  TRANSPOSE_ND2ND_B16, TRANSPOSE_NCHW2NHWC, TRANSPOSE_NHWC2NCHW
};
struct TransDataTo5HDParams {
  bool dstHighHalf = false, srcHighHalf = false;
  uint8_t repeatTimes = 1;
  uint16_t dstRepStride = 0, srcRepStride = 0;
  constexpr TransDataTo5HDParams() = default;
  constexpr TransDataTo5HDParams(const bool dstHigh, const bool srcHigh, const uint8_t repeats, const uint16_t dstRep, const uint16_t srcRep)
      : dstHighHalf(dstHigh), srcHighHalf(srcHigh), repeatTimes(repeats), dstRepStride(dstRep), srcRepStride(srcRep) {}
};
struct TransposeParamsExt {
  uint16_t nSize = 0, cSize = 0, hSize = 0, wSize = 0;
  TransposeType transposeType = TransposeType::TRANSPOSE_ND2ND_B16;
  constexpr TransposeParamsExt() = default;
  constexpr TransposeParamsExt(const uint16_t n, const uint16_t c, const uint16_t h, const uint16_t w, const TransposeType type)
      : nSize(n), cSize(c), hSize(h), wSize(w), transposeType(type) {}
};

}  // namespace AscendC

namespace simulator {

// No cycles are published for a transposition. Each repeat of 256 bytes crosses lanes, so this uses the cycles of reductions.
constexpr double TRANSPOSE = 7;

template <typename T> constexpr bool turned = sizeof(T) <= 4 && !std::is_same<T, int4b_t>::value;

// A tensor at a raw address from GetPhyAddr; it may extend to the end of its memory.
template <typename T> inline AscendC::LocalTensor<T> tensorAt(uint64_t raw, const char* what) {
  uint64_t start = reinterpret_cast<uint64_t>(core->seen);
  if (raw < start || raw >= start + LOCAL_BYTES) endRun("E-UB-NULL", "%s: the address is in no local memory", what);
  AscendC::LocalTensor<T> made;
  made.address = uint32_t(raw - start);
  int space = spaceOf(made.address);
  made.low = SPACE_START[space];
  made.high = SPACE_START[space] + uint32_t(spaceBytes(space));
  made.length = made.high > made.address ? (made.high - made.address) / uint32_t(sizeof(T)) : 0;
  made.allocated = true;
  return made;
}

// 16 blocks to 16 blocks. A block of 32-bit elements holds 8 of the 16 elements of a row, so each row has two blocks.
template <typename T>
inline void turnBlocks(const AscendC::LocalTensor<T>* to, const AscendC::LocalTensor<T>* from, const AscendC::TransDataTo5HDParams& by) {
  const char* what = "TransDataTo5HD";
  takes<turned<T>, T>(what);
  constexpr int perBlock = int(32 / sizeof(T)), rows = 16;
  vectorCost(512ull * by.repeatTimes, TRANSPOSE);
  for (uint32_t r = 0; r < by.repeatTimes; r++) {
    uint32_t step = by.repeatTimes == 1 ? 1 : r;  // a single repeat starts at one stride
    T block[rows][perBlock];
    bool inDoubt[rows][perBlock] = {};
    for (int i = 0; i < rows; i++) {
      AscendC::LocalTensor<T> part = from[i];
      part.address += step * by.srcRepStride * BLOCK;
      AscendC::LocalTensor<T> head = from[0];
      head.address += step * by.srcRepStride * BLOCK;
      if (Doubt().finds(part, head, BLOCK, what))
        for (int k = 0; k < perBlock; k++) inDoubt[i][k] = !isKnown(part, uint64_t(k));
      memcpy(static_cast<void*>(block[i]), part.data(), BLOCK);
    }
    for (int i = 0; i < rows; i++) {
      AscendC::LocalTensor<T> part = to[i];
      part.address += step * by.dstRepStride * BLOCK;
      int column = sizeof(T) == 4 ? i / 2 : i + (sizeof(T) == 1 && by.srcHighHalf ? rows : 0);
      int first = sizeof(T) == 4 ? i % 2 * perBlock : 0, count = std::min(rows, perBlock);
      int into = sizeof(T) == 1 && by.dstHighHalf ? rows : 0;
      AscendC::LocalTensor<T> written = part[into];
      target(V, written, uint64_t(count) * sizeof(T), what, sizeof(T) == 1 ? 16 : BLOCK);
      if (isDry()) continue;
      for (int k = 0; k < count; k++) {
        written.data()[k] = block[first + k][column];
        if (inDoubt[first + k][column]) Doubt::forget(written, uint64_t(k));
      }
    }
  }
}

// [N, C, HW] to [N, HW, C], or back.
template <typename T>
inline void swapChannels(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const AscendC::TransposeParamsExt& by,
                         bool channelsLast) {
  const char* what = "Transpose";
  uint64_t plane = uint64_t(by.hSize) * by.wSize, all = uint64_t(by.nSize) * by.cSize * plane;
  if (plane * sizeof(T) % BLOCK)
    reportViolation("E-TRANSPOSE-SIZE", "Transpose: %d x %d elements of %s are not a multiple of 32 bytes", by.hSize, by.wSize, typeName<T>());
  if (by.cSize > 4095 || plane > 4095)
    reportViolation("E-TRANSPOSE-SIZE", "Transpose: %d channels of %llu elements, but at most 4095 of each are possible", by.cSize, (unsigned long long)plane);
  if (!all) return;
  vectorCost(all * sizeof(T), TRANSPOSE);
  source(V, src, all * sizeof(T), what);
  target(V, dst, all * sizeof(T), what);
  if (isDry()) return;
  std::vector<T> from(src.data(), src.data() + all);
  for (uint64_t n = 0; n < by.nSize; n++)
    for (uint64_t c = 0; c < by.cSize; c++)
      for (uint64_t i = 0; i < plane; i++) {
        uint64_t first = (n * by.cSize + c) * plane + i, last = (n * plane + i) * by.cSize + c;
        if (channelsLast) dst.data()[last] = from[first];
        else dst.data()[first] = from[last];
      }
}

}  // namespace simulator

namespace AscendC {

// 16 by 16 elements of 16 bits.
template <typename T> inline void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src) {
  const char* what = "Transpose";
  simulator::takes<simulator::Kind<T>::bits16 || simulator::Kind<T>::f16, T>(what);
  constexpr int side = 16;
  simulator::vectorCost(side * side * sizeof(T), simulator::TRANSPOSE);
  simulator::Doubt doubt;
  if (doubt.finds(src, side * side * sizeof(T), what))
    for (int i = 0; i < side * side; i++)
      if (!simulator::isKnown(src, uint64_t(i))) doubt.mark(side * side, uint64_t(i % side * side + i / side));
  doubt.target(dst, side * side, what);
  if (simulator::isDry()) return;
  T from[side * side];
  std::copy_n(src.data(), side * side, from);
  for (int row = 0; row < side; row++)
    for (int column = 0; column < side; column++) dst.data()[row * side + column] = from[column * side + row];
}
template <typename T>
inline void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
                      const TransposeParamsExt& by) {
  using Type = TransposeType;
  if (by.transposeType == Type::TRANSPOSE_TYPE_NONE) return;
  if (by.transposeType == Type::TRANSPOSE_ND2ND_B16) return Transpose(dst, src);
  if (by.transposeType != Type::TRANSPOSE_NCHW2NHWC && by.transposeType != Type::TRANSPOSE_NHWC2NCHW)
    simulator::endRun("E-TRANSPOSE-TYPE", "Transpose: the TransposeType %d does not exist on this chip", int(by.transposeType));
  bool channelsLast = by.transposeType == Type::TRANSPOSE_NCHW2NHWC;
  uint64_t rows = sizeof(T) == 1 ? 32 : 16, needed = (channelsLast ? by.cSize + 2ull : by.cSize * 2ull + 1) * rows * 32;
  uint64_t has = sharedTmpBuffer.high > sharedTmpBuffer.address ? sharedTmpBuffer.high - sharedTmpBuffer.address : 0;
  if (has < needed)
    simulator::reportViolation("E-TRANSPOSE-WORK", "Transpose needs a work buffer of %llu bytes, but it has %llu", (unsigned long long)needed,
                 (unsigned long long)has);
  simulator::swapChannels(dst, src, by, channelsLast);
}

template <typename T>
inline void TransDataTo5HD(const LocalTensor<T> (&dstList)[NCHW_CONV_ADDR_LIST_SIZE],
                           const LocalTensor<T> (&srcList)[NCHW_CONV_ADDR_LIST_SIZE], const TransDataTo5HDParams& by) {
  simulator::turnBlocks(dstList, srcList, by);
}
template <typename T>
inline void TransDataTo5HD(uint64_t dstList[NCHW_CONV_ADDR_LIST_SIZE], uint64_t srcList[NCHW_CONV_ADDR_LIST_SIZE],
                           const TransDataTo5HDParams& by) {
  LocalTensor<T> to[NCHW_CONV_ADDR_LIST_SIZE], from[NCHW_CONV_ADDR_LIST_SIZE];
  for (int i = 0; i < NCHW_CONV_ADDR_LIST_SIZE; i++) {
    to[i] = simulator::tensorAt<T>(dstList[i], "TransDataTo5HD");
    from[i] = simulator::tensorAt<T>(srcList[i], "TransDataTo5HD");
  }
  simulator::turnBlocks(to, from, by);
}
template <typename T>
inline void TransDataTo5HD(const LocalTensor<uint64_t>& dst, const LocalTensor<uint64_t>& src, const TransDataTo5HDParams& by) {
  uint64_t to[NCHW_CONV_ADDR_LIST_SIZE], from[NCHW_CONV_ADDR_LIST_SIZE];
  for (int i = 0; i < NCHW_CONV_ADDR_LIST_SIZE; i++) {
    to[i] = dst.GetValue(i);
    from[i] = src.GetValue(i);
  }
  TransDataTo5HD<T>(to, from, by);
}

}  // namespace AscendC
