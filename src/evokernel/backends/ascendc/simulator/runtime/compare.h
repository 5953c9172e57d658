// Compare and Select. A comparison result has one bit per element, with the first element in the lowest bit.
#pragma once
#include "vector.h"

namespace simulator {

using AscendC::CMPMODE;
using AscendC::SELMODE;

template <typename T> inline bool holds(T x, T y, CMPMODE mode) {
  switch (mode) {
    case CMPMODE::LT: return x < y;
    case CMPMODE::GT: return x > y;
    case CMPMODE::EQ: return x == y;
    case CMPMODE::LE: return x <= y;
    case CMPMODE::GE: return x >= y;
    default: return x != y;
  }
}

template <typename U> inline bool bitOf(const AscendC::LocalTensor<U>& bits, uint64_t index) {
  return (reinterpret_cast<const uint8_t*>(bits.data())[index / 8] >> (index % 8)) & 1;
}
template <typename T, typename U> inline void comparable(CMPMODE mode, const char* what) {
  takes<Kind<T>::floats || Kind<T>::i32, T>(what);
  if (Kind<T>::i32 && mode != CMPMODE::EQ) reportViolation("E-DTYPE", "%s supports int32_t only with CMPMODE::EQ on this chip", what);
  takes<sizeof(U) == 1, U>(what);
}

// F computes the bit of an element. Only complete repeats are processed; the remainder of a count is ignored.
template <typename T, typename U, typename F>
inline void compare(const AscendC::LocalTensor<U>& dst, uint64_t count, const char* what, F f) {
  uint64_t bytes = count * sizeof(T);
  if (bytes % 256)
    reportViolation("E-CMP-256", "%s: %llu elements of %s are %llu bytes, which is not a multiple of 256", what, (unsigned long long)count, typeName<T>(),
           (unsigned long long)bytes);
  uint64_t whole = bytes / 256 * (256 / sizeof(T));
  if (!whole) return;
  target(V, dst, whole / 8, what);
  if (isDry()) return;
  std::vector<uint8_t> bits(whole / 8);  // dst may be one of the sources
  for (uint64_t i = 0; i < whole; i++) bits[i / 8] = uint8_t(bits[i / 8] | (f(i) << (i % 8)));
  memcpy(static_cast<void*>(dst.data()), bits.data(), bits.size());
}

// By repeats: on this chip the mask has no effect, and the results are contiguous.
template <typename T, typename U, typename F>
inline void compareRepeat(const AscendC::LocalTensor<U>& dst, int count, const char* what, F f) {
  repeats(count, what);
  constexpr int width = int(256 / sizeof(T));
  if (isDry()) return target(V, dst, uint64_t(count) * width / 8, what);
  std::vector<uint8_t> bits(size_t(count) * width / 8);
  for (int r = 0; r < count; r++)
    for (int lane = 0; lane < width; lane++) {
      size_t at = size_t(r) * width + size_t(lane);
      bits[at / 8] = uint8_t(bits[at / 8] | (f(r, lane) << (at % 8)));
    }
  target(V, dst, bits.size(), what);
  memcpy(static_cast<void*>(dst.data()), bits.data(), bits.size());
}
template <typename T, typename U>
inline void compareTensors(const AscendC::LocalTensor<U>& dst, const AscendC::LocalTensor<T>& one, const AscendC::LocalTensor<T>& other,
                           CMPMODE mode, int count, const AscendC::BinaryRepeatParams& by) {
  const char* what = "Compare";
  comparable<T, U>(mode, what);
  Stride a{by.src0BlkStride, by.src0RepStride}, b{by.src1BlkStride, by.src1RepStride};
  Mask all = lanes(256 / sizeof(T));
  vectorCost(256ull * uint64_t(count), 2);
  Doubt doubt;
  doubt.source(one, {all, all, count}, a, int(256 / sizeof(T)), what);
  doubt.source(other, {all, all, count}, b, int(256 / sizeof(T)), what);
  compareRepeat<T>(dst, count, what,
                   [&](int r, int lane) { return holds(one.data()[element<T>(r, lane, a)], other.data()[element<T>(r, lane, b)], mode); });
  doubt.bits(dst);
}
template <typename T, typename U>
inline void compareScalar(const AscendC::LocalTensor<U>& dst, const AscendC::LocalTensor<T>& src, T scalar, CMPMODE mode, int count,
                          const AscendC::UnaryRepeatParams& by, const char* what) {
  comparable<T, U>(mode, what);
  Stride a{by.srcBlkStride, by.srcRepStride};
  vectorCost(256ull * uint64_t(count), 1);
  Mask all = lanes(256 / sizeof(T));
  Doubt doubt;
  doubt.source(src, {all, all, count}, a, int(256 / sizeof(T)), what);
  compareRepeat<T>(dst, count, what, [&](int r, int lane) { return holds(src.data()[element<T>(r, lane, a)], scalar, mode); });
  doubt.bits(dst);
}
template <typename T, typename U>
inline void compareScalar(const AscendC::LocalTensor<U>& dst, const AscendC::LocalTensor<T>& src, T scalar, CMPMODE mode, uint32_t count,
                          const char* what) {
  forgetMask();
  comparable<T, U>(mode, what);
  if (nothing(count, what)) return;
  vectorCost(uint64_t(count) * sizeof(T), 1);
  Doubt doubt;
  doubt.source(src, count, what);
  compare<T>(dst, count, what, [&](uint64_t i) { return holds(src.data()[i], scalar, mode); });
  doubt.bits(dst);
}
template <typename T>
inline void compareToRegister(const AscendC::LocalTensor<T>& one, const AscendC::LocalTensor<T>& other, CMPMODE mode, const Lanes& given,
                              const AscendC::BinaryRepeatParams& by) {
  const char* what = "Compare";
  takes<Kind<T>::floats, T>(what);
  Work work = workOf(given, 1, int(256 / sizeof(T)), what);
  Stride a{by.src0BlkStride, by.src0RepStride}, b{by.src1BlkStride, by.src1RepStride};
  vectorCost(256, 2);
  lanesOperand(one, work.of(0), 1, a, false, what);
  lanesOperand(other, work.of(0), 1, b, false, what);
  core->compared.low = core->compared.high = 0;
  for (int lane = 0; lane < int(256 / sizeof(T)); lane++)
    if (work.of(0).on(lane) && holds(one.data()[element<T>(0, lane, a)], other.data()[element<T>(0, lane, b)], mode))
      (lane < 64 ? core->compared.low : core->compared.high) |= 1ull << (lane % 64);
}

// ---- selection

inline void selects(SELMODE mode, bool withScalar) {
  if (withScalar != (mode == SELMODE::VSEL_TENSOR_SCALAR_MODE))
    reportViolation("E-SEL-MODE", "Select %s requires %s", withScalar ? "with a scalar" : "of two tensors",
           withScalar ? "VSEL_TENSOR_SCALAR_MODE" : "VSEL_CMPMASK_SPR or VSEL_TENSOR_TENSOR_MODE");
}
template <typename T, typename U> inline void selectable() {
  takes<Kind<T>::floats, T>("Select");
  takes<std::is_integral<U>::value, U>("Select with a mask of type");
}
// In VSEL_CMPMASK_SPR all repeats use the same bits; in the other modes each repeat uses the following bits.
template <typename T> inline uint64_t selectBit(SELMODE mode, int repeat, int lane) {
  constexpr uint64_t width = 256 / sizeof(T);
  return mode == SELMODE::VSEL_CMPMASK_SPR ? uint64_t(lane) : uint64_t(repeat) * width + uint64_t(lane);
}
// The operand for elements whose bit is 0.
template <typename T> struct OtherTensor {
  AscendC::LocalTensor<T> tensor;
  bool inDoubt(Doubt& doubt, uint64_t count) const { return doubt.finds(tensor, count * sizeof(T), "Select"); }
  T at(uint64_t index) const { return tensor.data()[index]; }
  bool knows(uint64_t index) const { return isKnown(tensor, index); }
};
template <typename T> struct OtherNumber {
  T number;
  bool inDoubt(Doubt&, uint64_t) const { return false; }
  T at(uint64_t) const { return number; }
  bool knows(uint64_t) const { return true; }
};
// Uses the cycles of a comparison, because none are published for a selection.
template <typename T, typename U, typename O>
inline void select(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& bits, const AscendC::LocalTensor<T>& one,
                   SELMODE mode, uint32_t count, const O& other) {
  const char* what = "Select";
  forgetMask();
  selectable<T, U>();
  if (nothing(count, what)) return;
  constexpr uint64_t width = 256 / sizeof(T);
  vectorCost(uint64_t(count) * sizeof(T), 2);
  uint64_t used = mode == SELMODE::VSEL_CMPMASK_SPR ? std::min<uint64_t>(count, width) : count;
  Doubt doubt;
  bool inDoubt = doubt.finds(bits, (used + 7) / 8, what);
  inDoubt |= doubt.finds(one, uint64_t(count) * sizeof(T), what);
  inDoubt |= other.inDoubt(doubt, count);
  if (isDry()) return doubt.target(dst, count, what);
  std::vector<T> chosen(count);
  for (uint64_t i = 0; i < count; i++) {
    uint64_t bit = selectBit<T>(mode, int(i / width), int(i % width));
    bool isFirst = bitOf(bits, bit);
    chosen[i] = isFirst ? one.data()[i] : other.at(i);
    if (inDoubt && !(core->known[bits.address + bit / 8] && (isFirst ? isKnown(one, i) : other.knows(i)))) doubt.mark(count, i);
  }
  doubt.target(dst, count, what);
  std::copy(chosen.begin(), chosen.end(), dst.data());
}
template <typename T, typename B, typename G>
inline void selectRepeat(const AscendC::LocalTensor<T>& dst, B bitAt, const AscendC::LocalTensor<T>& one, const Lanes& given, int count,
                         const AscendC::BinaryRepeatParams& by, G other) {
  const char* what = "Select";
  takes<Kind<T>::floats, T>(what);
  constexpr int width = int(256 / sizeof(T));
  Work work = workOf(given, count, width, what);
  Stride to{by.dstBlkStride, by.dstRepStride}, a{by.src0BlkStride, by.src0RepStride};
  vectorCost(256ull * uint64_t(work.repeats), 2);
  lanesOperand(one, work, a, false, what);
  lanesOperand(dst, work, to, true, what);
  if (isDry()) return;
  for (int r = 0; r < work.repeats; r++)
    for (int lane = 0; lane < width; lane++)
      if (work.of(r).on(lane)) dst.data()[element<T>(r, lane, to)] = bitAt(r, lane) ? one.data()[element<T>(r, lane, a)] : other(r, lane);
}
template <typename T, typename U> inline auto bitsFrom(const AscendC::LocalTensor<U>& bits, SELMODE mode, int count) {
  uint64_t width = 256 / sizeof(T), used = mode == SELMODE::VSEL_CMPMASK_SPR ? width : width * uint64_t(std::max(count, 1));
  source(V, bits, used / 8, "Select");
  return [bits, mode](int r, int lane) { return bitOf(bits, selectBit<T>(mode, r, lane)); };
}
template <typename T>
inline auto secondSource(const AscendC::LocalTensor<T>& other, const Lanes& given, int count, const AscendC::BinaryRepeatParams& by) {
  Stride b{by.src1BlkStride, by.src1RepStride};
  lanesOperand(other, workOf(given, count, int(256 / sizeof(T)), "Select"), b, false, "Select");
  return [other, b](int r, int lane) { return other.data()[element<T>(r, lane, b)]; };
}

// Mask is a number of lanes or an array of bits.
template <typename T, typename U, bool isSetMask, typename Mask>
inline void selectTensors(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& selMask, const AscendC::LocalTensor<T>& src0,
                          const AscendC::LocalTensor<T>& src1, AscendC::SELMODE selMode, Mask mask, uint8_t repeatTime,
                          const AscendC::BinaryRepeatParams& by) {
  selects(selMode, false);
  selectable<T, U>();
  Lanes given = maskOf<T, isSetMask>(mask, "Select");
  selectRepeat(dst, bitsFrom<T>(selMask, selMode, repeatTime), src0, given, repeatTime, by, secondSource(src1, given, repeatTime, by));
}
template <typename T, typename U, bool isSetMask, typename Mask>
inline void selectNumber(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& selMask, const AscendC::LocalTensor<T>& src0,
                         T src1, AscendC::SELMODE selMode, Mask mask, uint8_t repeatTime, const AscendC::BinaryRepeatParams& by) {
  selects(selMode, true);
  selectable<T, U>();
  selectRepeat(dst, bitsFrom<T>(selMask, selMode, repeatTime), src0, maskOf<T, isSetMask>(mask, "Select"), repeatTime, by,
               [src1](int, int) { return src1; });
}

}  // namespace simulator

namespace AscendC {

template <typename T, typename U>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, uint32_t count) {
  const char* what = "Compare";
  simulator::forgetMask();
  simulator::comparable<T, U>(cmpMode, what);
  if (simulator::nothing(count, what)) return;
  simulator::vectorCost(uint64_t(count) * sizeof(T), 2);
  simulator::Doubt doubt;
  doubt.source(src0, count, what);
  doubt.source(src1, count, what);
  simulator::compare<T>(dst, count, what, [&](uint64_t i) { return simulator::holds(src0.data()[i], src1.data()[i], cmpMode); });
  doubt.bits(dst);
}
template <typename T, typename U, bool isSetMask = true>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, const uint64_t mask,
                    uint8_t repeatTime, const BinaryRepeatParams& by) {
  (void)mask;
  simulator::compareTensors(dst, src0, src1, cmpMode, repeatTime, by);
}
template <typename T, bool isSetMask = true>
inline void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, const uint64_t mask,
                    const BinaryRepeatParams& by) {
  simulator::compareToRegister(src0, src1, cmpMode, simulator::maskOf<T, isSetMask>(mask, "Compare"), by);
}
template <typename T, typename U, bool isSetMask = true>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
                    const uint64_t mask[], uint8_t repeatTime, const BinaryRepeatParams& by) {
  (void)mask;
  simulator::compareTensors(dst, src0, src1, cmpMode, repeatTime, by);
}
template <typename T, bool isSetMask = true>
inline void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, const uint64_t mask[],
                    const BinaryRepeatParams& by) {
  simulator::compareToRegister(src0, src1, cmpMode, simulator::maskOf<T, isSetMask>(mask, "Compare"), by);
}

template <typename T, typename U>
inline void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode, uint32_t count) {
  simulator::compareScalar(dst, src0, src1Scalar, cmpMode, count, "CompareScalar");
}
template <typename T, typename U, bool isSetMask = true>
inline void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode, const uint64_t mask,
                          uint8_t repeatTime, const UnaryRepeatParams& by) {
  (void)mask;
  simulator::compareScalar(dst, src0, src1Scalar, cmpMode, repeatTime, by, "CompareScalar");
}
template <typename T, typename U, bool isSetMask = true>
inline void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode, const uint64_t mask[],
                          uint8_t repeatTime, const UnaryRepeatParams& by) {
  (void)mask;
  simulator::compareScalar(dst, src0, src1Scalar, cmpMode, repeatTime, by, "CompareScalar");
}

template <typename T, typename U>
inline void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode, uint32_t count) {
  simulator::compareScalar(dst, src0, src1Scalar, cmpMode, count, "Compares");
}
template <typename T, typename U, bool isSetMask = true>
inline void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode, const uint64_t mask,
                     uint8_t repeatTime, const UnaryRepeatParams& by) {
  (void)mask;
  simulator::compareScalar(dst, src0, src1Scalar, cmpMode, repeatTime, by, "Compares");
}
template <typename T, typename U, bool isSetMask = true>
inline void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode, const uint64_t mask[],
                     uint8_t repeatTime, const UnaryRepeatParams& by) {
  (void)mask;
  simulator::compareScalar(dst, src0, src1Scalar, cmpMode, repeatTime, by, "Compares");
}

// The 128-bit register that Compare without a destination writes and Select without a mask reads.
template <typename T> inline void GetCmpMask(const LocalTensor<T>& dst) {
  simulator::vectorCost(16, 1);
  simulator::target(simulator::V, dst, 16, "GetCmpMask", 16);
  memcpy(static_cast<void*>(dst.data()), &simulator::core->compared, 16);
}
template <typename T> inline void SetCmpMask(const LocalTensor<T>& src) {
  simulator::vectorCost(16, 1);
  simulator::source(simulator::V, src, 16, "SetCmpMask", 16);
  memcpy(static_cast<void*>(&simulator::core->compared), src.data(), 16);
}

template <typename T, typename U>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                   SELMODE selMode, uint32_t count) {
  simulator::selects(selMode, false);
  simulator::select(dst, selMask, src0, selMode, count, simulator::OtherTensor<T>{src1});
}
template <typename T, typename U>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1, SELMODE selMode,
                   uint32_t count) {
  simulator::selects(selMode, true);
  simulator::select(dst, selMask, src0, selMode, count, simulator::OtherNumber<T>{src1});
}
template <typename T, typename U, bool isSetMask = true>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                   SELMODE selMode, uint64_t mask, uint8_t repeatTime, const BinaryRepeatParams& by) {
  simulator::selectTensors<T, U, isSetMask>(dst, selMask, src0, src1, selMode, mask, repeatTime, by);
}
template <typename T, typename U, bool isSetMask = true>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1, SELMODE selMode,
                   uint64_t mask, uint8_t repeatTime, const BinaryRepeatParams& by) {
  simulator::selectNumber<T, U, isSetMask>(dst, selMask, src0, src1, selMode, mask, repeatTime, by);
}
template <typename T, typename U, bool isSetMask = true>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                   SELMODE selMode, uint64_t mask[], uint8_t repeatTime, const BinaryRepeatParams& by) {
  simulator::selectTensors<T, U, isSetMask>(dst, selMask, src0, src1, selMode, mask, repeatTime, by);
}
template <typename T, typename U, bool isSetMask = true>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1, SELMODE selMode,
                   uint64_t mask[], uint8_t repeatTime, const BinaryRepeatParams& by) {
  simulator::selectNumber<T, U, isSetMask>(dst, selMask, src0, src1, selMode, mask, repeatTime, by);
}
// Uses the bits of the last SetCmpMask or Compare, and the lanes of SetVectorMask.
template <typename T, SELMODE selMode>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint8_t repeatTime,
                   const BinaryRepeatParams& by) {
  if (selMode != SELMODE::VSEL_CMPMASK_SPR) simulator::reportViolation("E-SEL-MODE", "Select without a mask tensor requires VSEL_CMPMASK_SPR on the simulator");
  simulator::Lanes given = simulator::maskOf<T, false>(uint64_t(0), "Select");
  simulator::selectRepeat(dst, [](int, int lane) { return simulator::core->compared.on(lane); }, src0, given, repeatTime, by,
                     simulator::secondSource(src1, given, repeatTime, by));
}
// The same, with the number set by SetCmpMask for elements whose bit is 0.
template <typename T, typename U>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, uint8_t repeatTime,
                   const BinaryRepeatParams& by) {
  simulator::selectable<T, U>();
  T scalar;
  memcpy(static_cast<void*>(&scalar), &simulator::core->compared, sizeof(T));
  simulator::selectRepeat(dst, simulator::bitsFrom<T>(selMask, SELMODE::VSEL_TENSOR_SCALAR_MODE, repeatTime), src0,
                     simulator::maskOf<T, false>(uint64_t(0), "Select"), repeatTime,
                     by, [scalar](int, int) { return scalar; });
}

}  // namespace AscendC
