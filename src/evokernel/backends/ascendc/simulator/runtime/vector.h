// Vector arithmetic: on a count of elements, or by mask and repeats with strides. One instruction processes 256 bytes per repeat.
#pragma once
#include "doubt.h"
#include "estimate.h"

namespace AscendC {

struct UnaryRepeatParams {
  uint32_t blockNumber = DEFAULT_BLK_NUM;
  uint16_t dstBlkStride = 1, srcBlkStride = 1;
  uint8_t dstRepStride = 8, srcRepStride = 8;
  bool repeatStrideMode = false, strideSizeMode = false, halfBlock = false;
  UnaryRepeatParams() {}
  UnaryRepeatParams(uint16_t dstBlk, uint16_t srcBlk, uint8_t dstRep, uint8_t srcRep)
      : dstBlkStride(dstBlk), srcBlkStride(srcBlk), dstRepStride(dstRep), srcRepStride(srcRep) {}
  UnaryRepeatParams(uint16_t dstBlk, uint16_t srcBlk, uint8_t dstRep, uint8_t srcRep, bool half)
      : UnaryRepeatParams(dstBlk, srcBlk, dstRep, srcRep) {
    halfBlock = half;
  }
};
struct BinaryRepeatParams {
  uint32_t blockNumber = DEFAULT_BLK_NUM;
  uint8_t dstBlkStride = 1, src0BlkStride = 1, src1BlkStride = 1, dstRepStride = 8, src0RepStride = 8, src1RepStride = 8;
  bool repeatStrideMode = false, strideSizeMode = false;
  BinaryRepeatParams() {}
  BinaryRepeatParams(uint8_t dstBlk, uint8_t src0Blk, uint8_t src1Blk, uint8_t dstRep, uint8_t src0Rep, uint8_t src1Rep)
      : dstBlkStride(dstBlk), src0BlkStride(src0Blk), src1BlkStride(src1Blk), dstRepStride(dstRep), src0RepStride(src0Rep), src1RepStride(src1Rep) {}
};

}  // namespace AscendC

namespace simulator {

// Bits of any type: kernels instantiate these for unsupported types in branches that never run.
template <typename T, typename F> inline T onBits(T one, T other, F f) {
  using Bits = std::conditional_t<sizeof(T) == 1, uint8_t, std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
  Bits a, b;
  memcpy(&a, static_cast<const void*>(&one), sizeof(T));
  memcpy(&b, static_cast<const void*>(&other), sizeof(T));
  Bits made = Bits(f(a, b));
  memcpy(static_cast<void*>(&one), &made, sizeof(T));
  return one;
}

// ---- element loops: F is a function object on elements

template <typename F, typename D, typename T>
inline void unary(const char* what, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<T>& src, int64_t count, double cycles,
                  F f) {
  forgetMask();
  if (nothing(count, what)) return;
  vectorCost(uint64_t(count) * std::max(sizeof(T), sizeof(D)), cycles);
  Doubt doubt;
  doubt.source(src, uint64_t(count), what);
  doubt.target(dst, uint64_t(count), what);
  apart(dst, src, count, what);
  D* to = dst.data();
  const T* from = src.data();
  for (int64_t i = 0; i < count; i++) to[i] = f(from[i]);
}
template <typename F, typename D, typename T>
inline void unaryRepeat(const char* what, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<T>& src, const Lanes& given,
                        int count, Stride to, Stride from, double cycles, F f) {
  constexpr int width = int(256 / std::max(sizeof(T), sizeof(D)));
  Work work = workOf(given, count, width, what);
  vectorCost(256ull * uint64_t(work.repeats), cycles);
  Doubt doubt;
  doubt.source(src, work, from, width, what);
  doubt.target(dst, work, to, width, what);
  apart(placeOf(dst, to), placeOf(src, from), work, what);
  for (int r = 0; r < work.repeats; r++)
    for (int lane = 0; lane < width; lane++)
      if (work.of(r).on(lane)) dst.data()[element<D>(r, lane, to)] = f(src.data()[element<T>(r, lane, from)]);
}
template <typename F, typename D, typename T, typename U = T>
inline void binary(const char* what, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<T>& one,
                   const AscendC::LocalTensor<U>& other, int64_t count, double cycles, F f) {
  forgetMask();
  if (nothing(count, what)) return;
  vectorCost(uint64_t(count) * std::max(sizeof(T), sizeof(D)), cycles > 0 ? cycles : twoSources(one, other));
  Doubt doubt;
  doubt.source(one, uint64_t(count), what);
  doubt.source(other, uint64_t(count), what);
  doubt.target(dst, uint64_t(count), what);
  apart(dst, one, count, what);
  apart(dst, other, count, what);
  D* to = dst.data();
  const T* a = one.data();
  const U* b = other.data();
  for (int64_t i = 0; i < count; i++) to[i] = f(a[i], b[i]);
}
template <typename F, typename D, typename T>
inline void binaryRepeat(const char* what, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<T>& one,
                         const AscendC::LocalTensor<T>& other, const Lanes& given, int count, const AscendC::BinaryRepeatParams& by,
                         double cycles, F f) {
  constexpr int width = int(256 / std::max(sizeof(T), sizeof(D)));
  Work work = workOf(given, count, width, what);
  Stride to{by.dstBlkStride, by.dstRepStride}, a{by.src0BlkStride, by.src0RepStride}, b{by.src1BlkStride, by.src1RepStride};
  vectorCost(256ull * uint64_t(work.repeats), cycles > 0 ? cycles : twoSources(one, other));
  Doubt doubt;
  doubt.source(one, work, a, width, what);
  doubt.source(other, work, b, width, what);
  doubt.target(dst, work, to, width, what);
  apart(placeOf(dst, to), placeOf(one, a), work, what);
  bool accumulates = !by.src1RepStride || !by.dstRepStride;  // the only allowed overlap between repeats
  if (!accumulates) apart(placeOf(dst, to), placeOf(other, b), work, what);
  for (int r = 0; r < work.repeats; r++)
    for (int lane = 0; lane < width; lane++)
      if (work.of(r).on(lane)) dst.data()[element<D>(r, lane, to)] = f(one.data()[element<T>(r, lane, a)], other.data()[element<T>(r, lane, b)]);
}

// A shift by at least the width of the type leaves only the sign.
template <typename T> inline T shiftedLeft(T x, T by) { return uint64_t(by) >= 8 * sizeof(T) ? T(0) : T(uint64_t(x) << by); }
template <typename T> inline T shiftedRight(T x, T by, bool rounds) {
  int64_t wide = int64_t(x);
  uint64_t bits = std::min<uint64_t>(uint64_t(by), 62);
  bool carry = rounds && std::is_signed<T>::value && bits && ((wide >> (bits - 1)) & 1);
  return T((wide >> bits) + carry);
}

template <typename T> inline double slowHalf(double cycles) { return sizeof(T) == 2 ? 2 * cycles : cycles; }

}  // namespace simulator

// The three public overloads of an instruction: an element count; a mask as a number of lanes; a mask as bits.
#define SIMULATOR_UNARY(NAME, TYPES, CYCLES, EXPRESSION)                                                                                                \
  template <typename T> inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count) {                             \
    simulator::takes<simulator::Kind<T>::TYPES, T>(#NAME);                                                                                                   \
    simulator::unary(#NAME, dst, src, count, CYCLES, [](T x) { return T(EXPRESSION); });                                                                \
  }                                                                                                                                                \
  template <typename T, bool isSetMask = true>                                                                                                     \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, const uint8_t repeatTime, const UnaryRepeatParams& by) {   \
    simulator::takes<simulator::Kind<T>::TYPES, T>(#NAME);                                                                                                   \
    simulator::unaryRepeat(#NAME, dst, src, simulator::maskOf<T, isSetMask>(mask, #NAME), repeatTime, {by.dstBlkStride, by.dstRepStride},                    \
                      {by.srcBlkStride, by.srcRepStride}, CYCLES, [](T x) { return T(EXPRESSION); });                                              \
  }                                                                                                                                                \
  template <typename T, bool isSetMask = true>                                                                                                     \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask[], const uint8_t repeatTime, const UnaryRepeatParams& by) { \
    simulator::takes<simulator::Kind<T>::TYPES, T>(#NAME);                                                                                                   \
    simulator::unaryRepeat(#NAME, dst, src, simulator::maskOf<T, isSetMask>(mask, #NAME), repeatTime, {by.dstBlkStride, by.dstRepStride},                    \
                      {by.srcBlkStride, by.srcRepStride}, CYCLES, [](T x) { return T(EXPRESSION); });                                              \
  }

#define SIMULATOR_BINARY(NAME, TYPES, CYCLES, EXPRESSION)                                                                                                \
  template <typename T> inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const int32_t& count) { \
    simulator::takes<simulator::Kind<T>::TYPES, T>(#NAME);                                                                                                    \
    simulator::binary(#NAME, dst, src0, src1, count, CYCLES, [](T x, T y) { return T(EXPRESSION); });                                                    \
  }                                                                                                                                                 \
  template <typename T, bool isSetMask = true>                                                                                                      \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask, const uint8_t repeatTime,      \
                   const BinaryRepeatParams& by) {                                                                                                  \
    simulator::takes<simulator::Kind<T>::TYPES, T>(#NAME);                                                                                                    \
    simulator::binaryRepeat(#NAME, dst, src0, src1, simulator::maskOf<T, isSetMask>(mask, #NAME), repeatTime, by, CYCLES,                                     \
                       [](T x, T y) { return T(EXPRESSION); });                                                                                     \
  }                                                                                                                                                 \
  template <typename T, bool isSetMask = true>                                                                                                      \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask[], const uint8_t repeatTime,    \
                   const BinaryRepeatParams& by) {                                                                                                  \
    simulator::takes<simulator::Kind<T>::TYPES, T>(#NAME);                                                                                                    \
    simulator::binaryRepeat(#NAME, dst, src0, src1, simulator::maskOf<T, isSetMask>(mask, #NAME), repeatTime, by, CYCLES,                                     \
                       [](T x, T y) { return T(EXPRESSION); });                                                                                     \
  }

// With a scalar of the tensor's type: CANN's compiler accepts no other.
#define SIMULATOR_SCALAR(NAME, TYPES, CYCLES, EXPRESSION)                                                                                      \
  template <typename T, bool isSetMask = true>                                                                                            \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, const int32_t& count) {                    \
    simulator::takes<simulator::Kind<T>::TYPES, T>(#NAME);                                                                                          \
    const T y = scalarValue;                                                                                                              \
    simulator::unary(#NAME, dst, src, count, CYCLES, [y](T x) { return T(EXPRESSION); });                                                      \
  }                                                                                                                                       \
  template <typename T, bool isSetMask = true>                                                                                            \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask, const uint8_t repeatTime,   \
                   const UnaryRepeatParams& by) {                                                                                         \
    simulator::takes<simulator::Kind<T>::TYPES, T>(#NAME);                                                                                          \
    const T y = scalarValue;                                                                                                              \
    simulator::unaryRepeat(#NAME, dst, src, simulator::maskOf<T, isSetMask>(mask, #NAME), repeatTime, {by.dstBlkStride, by.dstRepStride},           \
                      {by.srcBlkStride, by.srcRepStride}, CYCLES, [y](T x) { return T(EXPRESSION); });                                    \
  }                                                                                                                                       \
  template <typename T, bool isSetMask = true>                                                                                            \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask[], const uint8_t repeatTime, \
                   const UnaryRepeatParams& by) {                                                                                         \
    simulator::takes<simulator::Kind<T>::TYPES, T>(#NAME);                                                                                          \
    const T y = scalarValue;                                                                                                              \
    simulator::unaryRepeat(#NAME, dst, src, simulator::maskOf<T, isSetMask>(mask, #NAME), repeatTime, {by.dstBlkStride, by.dstRepStride},           \
                      {by.srcBlkStride, by.srcRepStride}, CYCLES, [y](T x) { return T(EXPRESSION); });                                    \
  }

namespace AscendC {

// Cycles per repeat of 256 bytes as measured by Huawei for the 910B1; 0 means one or two, depending on the banks of the sources.
SIMULATOR_BINARY(Add, arithmetic, 0, x + y)
SIMULATOR_BINARY(Sub, arithmetic, 0, x - y)
SIMULATOR_BINARY(Mul, arithmetic, 0, x * y)
SIMULATOR_BINARY(Div, floats, 4, x / y)
SIMULATOR_BINARY(Max, arithmetic, 0, x > y ? x : y)
SIMULATOR_BINARY(Min, arithmetic, 0, x < y ? x : y)
SIMULATOR_BINARY(And, bits16, 0, simulator::onBits(x, y, [](auto a, auto b) { return a & b; }))
SIMULATOR_BINARY(Or, bits16, 0, simulator::onBits(x, y, [](auto a, auto b) { return a | b; }))
SIMULATOR_BINARY(AddRelu, floats || simulator::Kind<T>::i16, 0, x + y > T(0) ? T(x + y) : T(0))
SIMULATOR_BINARY(SubRelu, floats || simulator::Kind<T>::i16, 0, x - y > T(0) ? T(x - y) : T(0))

SIMULATOR_UNARY(Exp, floats, simulator::slowHalf<T>(2), std::exp(float(x)))
SIMULATOR_UNARY(Ln, floats, simulator::slowHalf<T>(2), std::log(float(x)))
SIMULATOR_UNARY(Abs, floats, 1, std::fabs(float(x)))
SIMULATOR_UNARY(Sqrt, floats, simulator::slowHalf<T>(2), std::sqrt(float(x)))
SIMULATOR_UNARY(Rsqrt, floats, 1, simulator::reciprocalRootEstimate(float(x)))
SIMULATOR_UNARY(Reciprocal, floats, 1, simulator::reciprocalEstimate(float(x)))
SIMULATOR_UNARY(Relu, floats || simulator::Kind<T>::i32, 1, x > T(0) ? x : T(0))
SIMULATOR_UNARY(Not, bits16, 1, simulator::onBits(x, x, [](auto a, auto) { return ~a; }))

SIMULATOR_SCALAR(Adds, arithmetic, 1, x + y)
SIMULATOR_SCALAR(Muls, arithmetic, 1, x * y)
SIMULATOR_SCALAR(Maxs, arithmetic, 1, x > y ? x : y)
SIMULATOR_SCALAR(Mins, arithmetic, 1, x < y ? x : y)
SIMULATOR_SCALAR(LeakyRelu, floats, 1, x > T(0) ? x : T(x * y))
SIMULATOR_SCALAR(ShiftLeft, shifted, 1, simulator::shiftedLeft(x, y))

// Signed numbers keep their sign; for signed types roundEn adds the last bit that is shifted out.
template <typename T, bool isSetMask = true>
inline void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, const int32_t& count) {
  simulator::takes<simulator::Kind<T>::shifted, T>("ShiftRight");
  const T y = scalarValue;
  simulator::unary("ShiftRight", dst, src, count, 1, [y](T x) { return simulator::shiftedRight(x, y, false); });
}
template <typename T, bool isSetMask = true>
inline void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask, const uint8_t repeatTime,
                       const UnaryRepeatParams& by, bool roundEn = false) {
  simulator::takes<simulator::Kind<T>::shifted, T>("ShiftRight");
  const T y = scalarValue;
  simulator::unaryRepeat("ShiftRight", dst, src, simulator::maskOf<T, isSetMask>(mask, "ShiftRight"), repeatTime, {by.dstBlkStride, by.dstRepStride},
                    {by.srcBlkStride, by.srcRepStride}, 1, [y, roundEn](T x) { return simulator::shiftedRight(x, y, roundEn); });
}
template <typename T, bool isSetMask = true>
inline void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask[],
                       const uint8_t repeatTime, const UnaryRepeatParams& by, bool roundEn = false) {
  simulator::takes<simulator::Kind<T>::shifted, T>("ShiftRight");
  const T y = scalarValue;
  simulator::unaryRepeat("ShiftRight", dst, src, simulator::maskOf<T, isSetMask>(mask, "ShiftRight"), repeatTime, {by.dstBlkStride, by.dstRepStride},
                    {by.srcBlkStride, by.srcRepStride}, 1, [y, roundEn](T x) { return simulator::shiftedRight(x, y, roundEn); });
}

}  // namespace AscendC
