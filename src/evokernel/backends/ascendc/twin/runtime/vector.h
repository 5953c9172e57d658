// Vector arithmetic: on a count of elements, or by mask and repeats with strides. One instruction handles 256 bytes per repeat.
#pragma once
#include "tensors.h"

namespace AscendC {

struct UnaryRepeatParams {
  uint32_t blockNumber = DEFAULT_BLK_NUM;
  uint16_t dstBlkStride = 1, srcBlkStride = 1;
  uint8_t dstRepStride = 8, srcRepStride = 8;
  bool repeatStrideMode = false, strideSizeMode = false, halfBlock = false;
  UnaryRepeatParams() {}
  UnaryRepeatParams(uint16_t dstBlk, uint16_t srcBlk, uint8_t dstRep, uint8_t srcRep)
      : dstBlkStride(dstBlk), srcBlkStride(srcBlk), dstRepStride(dstRep), srcRepStride(srcRep) {}
  UnaryRepeatParams(uint16_t dstBlk, uint16_t srcBlk, uint8_t dstRep, uint8_t srcRep, bool half) : UnaryRepeatParams(dstBlk, srcBlk, dstRep, srcRep) { halfBlock = half; }
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

namespace twin {

// ---- masks and the lanes they leave

inline Mask lanes(uint64_t count) {
  return {count >= 64 ? ~0ull : (1ull << count) - 1, count <= 64 ? 0 : count >= 128 ? ~0ull : (1ull << (count - 64)) - 1};
}
template <typename T, bool isSetMask = true> inline Mask maskOf(uint64_t count, const char* what) {
  if (!isSetMask) return core->mask;
  uint64_t most = 256 / sizeof(T);
  if (count < 1 || count > most) broken("E-MASK", "%s: a mask of %llu is outside 1..%llu for %s", what, (unsigned long long)count, (unsigned long long)most, typeName<T>());
  return lanes(std::min(count, most));
}
template <typename T, bool isSetMask = true> inline Mask maskOf(const uint64_t bits[], const char* what) {
  if (!isSetMask) return core->mask;
  if (sizeof(T) == 4 && bits[1]) broken("E-MASK-HIGH", "%s: mask[1] must be 0 for %s, which has 64 lanes", what, typeName<T>());
  if (!bits[0] && !bits[1]) broken("E-MASK", "%s: a mask without any lane", what);
  return {bits[0], sizeof(T) == 4 ? 0 : bits[1]};
}

struct Stride {
  uint32_t block, repeat;  // in blocks of 32 bytes
};

// The element that a lane of a repeat stands for.
template <typename T> inline uint64_t element(int repeat, int lane, Stride by) {
  constexpr int perBlock = 32 / sizeof(T);
  return (uint64_t(repeat) * by.repeat + uint64_t(lane / perBlock) * by.block) * perBlock + uint64_t(lane % perBlock);
}
template <typename T> inline uint64_t span(const Mask& mask, int repeats, Stride by) {  // bytes from the first to the last element
  int last = 0;
  for (int lane = 0; lane < int(256 / sizeof(T)); lane++)
    if (mask.on(lane)) last = lane;
  uint64_t widest = element<T>(0, last, by);
  return (std::max(widest, uint64_t(repeats - 1) * by.repeat * (32 / sizeof(T)) + widest) + 1) * sizeof(T);
}
inline void repeats(int count, const char* what) {
  if (count < 1 || count > 255) broken("E-REPEAT", "%s: %d repeats are outside 1..255", what, count);
}

// Touches exactly the lanes that an instruction uses.
template <typename T> inline void lanesOperand(const AscendC::LocalTensor<T>& tensor, const Mask& mask, int count, Stride by, bool writes, const char* what) {
  uint64_t bytes = span<T>(mask, count, by);
  bool dense = by.block == 1 && (count == 1 || by.repeat == 8) && (mask.low == ~0ull && (sizeof(T) == 4 || mask.high == ~0ull) ? true : count == 1);
  uint64_t solid = mask.low & (mask.low + 1);
  if (dense && (!solid || mask.low == ~0ull)) return operand(V, tensor, bytes, writes, what);
  constexpr int perBlock = 32 / sizeof(T);
  if (__builtin_expect(!tensor.allocated || tensor.address < tensor.low || tensor.address + bytes > tensor.high || tensor.address % BLOCK, 0))
    operand(V, tensor, bytes, true, what);  // tells what is wrong
  AscendC::LocalTensor<T> part = tensor;
  for (int r = 0; r < count; r++)
    for (int b = 0; b < 8; b++) {
      int from = -1, to = -1;
      for (int lane = b * perBlock; lane < (b + 1) * perBlock; lane++)
        if (mask.on(lane)) from = from < 0 ? lane : from, to = lane;
      if (from < 0) continue;
      part.address = tensor.address + uint32_t(element<T>(r, from, by) * sizeof(T));
      uint64_t wide = uint64_t(to - from + 1) * sizeof(T);
      if (!writes) core->reads(part.address, wide, what);
      core->touch(V, part.address, wide, writes, what);
    }
}

// ---- the engine: F is a function object on elements

template <typename F, typename D, typename T> inline void unary(const char* what, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<T>& src,
                                                                int64_t count, double cycles, F f) {
  if (nothing(count, what)) return;
  vectorCost(uint64_t(count) * std::max(sizeof(T), sizeof(D)), cycles);
  source(V, src, uint64_t(count) * sizeof(T), what);
  target(V, dst, uint64_t(count) * sizeof(D), what);
  D* to = dst.data();
  const T* from = src.data();
  for (int64_t i = 0; i < count; i++) to[i] = f(from[i]);
}
template <typename F, typename D, typename T> inline void unaryRepeat(const char* what, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<T>& src,
                                                                      Mask mask, int count, Stride to, Stride from, double cycles, F f) {
  repeats(count, what);
  vectorCost(256ull * uint64_t(count), cycles);
  lanesOperand(src, mask, count, from, false, what);
  lanesOperand(dst, mask, count, to, true, what);
  constexpr int width = int(256 / std::max(sizeof(T), sizeof(D)));
  for (int r = 0; r < count; r++)
    for (int lane = 0; lane < width; lane++)
      if (mask.on(lane)) dst.data()[element<D>(r, lane, to)] = f(src.data()[element<T>(r, lane, from)]);
}
template <typename F, typename D, typename T, typename U = T>
inline void binary(const char* what, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<T>& one, const AscendC::LocalTensor<U>& other, int64_t count,
                   double cycles, F f) {
  if (nothing(count, what)) return;
  vectorCost(uint64_t(count) * std::max(sizeof(T), sizeof(D)), cycles > 0 ? cycles : twoSources(one, other));
  source(V, one, uint64_t(count) * sizeof(T), what);
  source(V, other, uint64_t(count) * sizeof(U), what);
  target(V, dst, uint64_t(count) * sizeof(D), what);
  D* to = dst.data();
  const T* a = one.data();
  const U* b = other.data();
  for (int64_t i = 0; i < count; i++) to[i] = f(a[i], b[i]);
}
template <typename F, typename D, typename T>
inline void binaryRepeat(const char* what, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<T>& one, const AscendC::LocalTensor<T>& other, Mask mask,
                         int count, const AscendC::BinaryRepeatParams& by, double cycles, F f) {
  repeats(count, what);
  Stride to{by.dstBlkStride, by.dstRepStride}, a{by.src0BlkStride, by.src0RepStride}, b{by.src1BlkStride, by.src1RepStride};
  vectorCost(256ull * uint64_t(count), cycles > 0 ? cycles : twoSources(one, other));
  lanesOperand(one, mask, count, a, false, what);
  lanesOperand(other, mask, count, b, false, what);
  lanesOperand(dst, mask, count, to, true, what);
  for (int r = 0; r < count; r++)
    for (int lane = 0; lane < int(256 / sizeof(T)); lane++)
      if (mask.on(lane)) dst.data()[element<D>(r, lane, to)] = f(one.data()[element<T>(r, lane, a)], other.data()[element<T>(r, lane, b)]);
}

template <typename T> inline double slowHalf(double cycles) { return sizeof(T) == 2 ? 2 * cycles : cycles; }

}  // namespace twin

// The three public forms of an instruction: so many elements; a mask as a number of lanes; a mask as bits.
#define TWIN_UNARY(NAME, TYPES, CYCLES, EXPRESSION)                                                                                              \
  template <typename T> inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count) {                           \
    twin::takes<twin::Kind<T>::TYPES, T>(#NAME);                                                                                                 \
    twin::unary(#NAME, dst, src, count, CYCLES, [](T x) { return T(EXPRESSION); });                                                              \
  }                                                                                                                                              \
  template <typename T, bool isSetMask = true>                                                                                                   \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, const uint8_t repeatTime, const UnaryRepeatParams& by) { \
    twin::takes<twin::Kind<T>::TYPES, T>(#NAME);                                                                                                 \
    twin::unaryRepeat(#NAME, dst, src, twin::maskOf<T, isSetMask>(mask, #NAME), repeatTime, {by.dstBlkStride, by.dstRepStride},                  \
                      {by.srcBlkStride, by.srcRepStride}, CYCLES, [](T x) { return T(EXPRESSION); });                                            \
  }                                                                                                                                              \
  template <typename T, bool isSetMask = true>                                                                                                   \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask[], const uint8_t repeatTime, const UnaryRepeatParams& by) { \
    twin::takes<twin::Kind<T>::TYPES, T>(#NAME);                                                                                                 \
    twin::unaryRepeat(#NAME, dst, src, twin::maskOf<T, isSetMask>(mask, #NAME), repeatTime, {by.dstBlkStride, by.dstRepStride},                  \
                      {by.srcBlkStride, by.srcRepStride}, CYCLES, [](T x) { return T(EXPRESSION); });                                            \
  }

#define TWIN_BINARY(NAME, TYPES, CYCLES, EXPRESSION)                                                                                            \
  template <typename T> inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const int32_t& count) { \
    twin::takes<twin::Kind<T>::TYPES, T>(#NAME);                                                                                                \
    twin::binary(#NAME, dst, src0, src1, count, CYCLES, [](T x, T y) { return T(EXPRESSION); });                                                \
  }                                                                                                                                             \
  template <typename T, bool isSetMask = true>                                                                                                  \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask, const uint8_t repeatTime,  \
                   const BinaryRepeatParams& by) {                                                                                              \
    twin::takes<twin::Kind<T>::TYPES, T>(#NAME);                                                                                                \
    twin::binaryRepeat(#NAME, dst, src0, src1, twin::maskOf<T, isSetMask>(mask, #NAME), repeatTime, by, CYCLES,                                 \
                       [](T x, T y) { return T(EXPRESSION); });                                                                                 \
  }                                                                                                                                             \
  template <typename T, bool isSetMask = true>                                                                                                  \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask[], const uint8_t repeatTime, \
                   const BinaryRepeatParams& by) {                                                                                              \
    twin::takes<twin::Kind<T>::TYPES, T>(#NAME);                                                                                                \
    twin::binaryRepeat(#NAME, dst, src0, src1, twin::maskOf<T, isSetMask>(mask, #NAME), repeatTime, by, CYCLES,                                 \
                       [](T x, T y) { return T(EXPRESSION); });                                                                                 \
  }

// With a scalar: its type need not be the tensor's, as in CANN's newer headers.
#define TWIN_SCALAR(NAME, TYPES, CYCLES, EXPRESSION)                                                                                            \
  template <typename T, bool isSetMask = true, typename U>                                                                                      \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const U& scalarValue, const int32_t& count) {                          \
    twin::takes<twin::Kind<T>::TYPES, T>(#NAME);                                                                                                \
    const T y = T(scalarValue);                                                                                                                 \
    twin::unary(#NAME, dst, src, count, CYCLES, [y](T x) { return T(EXPRESSION); });                                                            \
  }                                                                                                                                             \
  template <typename T, bool isSetMask = true, typename U>                                                                                      \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const U& scalarValue, uint64_t mask, const uint8_t repeatTime,         \
                   const UnaryRepeatParams& by) {                                                                                               \
    twin::takes<twin::Kind<T>::TYPES, T>(#NAME);                                                                                                \
    const T y = T(scalarValue);                                                                                                                 \
    twin::unaryRepeat(#NAME, dst, src, twin::maskOf<T, isSetMask>(mask, #NAME), repeatTime, {by.dstBlkStride, by.dstRepStride},                 \
                      {by.srcBlkStride, by.srcRepStride}, CYCLES, [y](T x) { return T(EXPRESSION); });                                          \
  }                                                                                                                                             \
  template <typename T, bool isSetMask = true, typename U>                                                                                      \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const U& scalarValue, uint64_t mask[], const uint8_t repeatTime,       \
                   const UnaryRepeatParams& by) {                                                                                               \
    twin::takes<twin::Kind<T>::TYPES, T>(#NAME);                                                                                                \
    const T y = T(scalarValue);                                                                                                                 \
    twin::unaryRepeat(#NAME, dst, src, twin::maskOf<T, isSetMask>(mask, #NAME), repeatTime, {by.dstBlkStride, by.dstRepStride},                 \
                      {by.srcBlkStride, by.srcRepStride}, CYCLES, [y](T x) { return T(EXPRESSION); });                                          \
  }

namespace AscendC {

// Cycles per repeat of 256 bytes as measured by Huawei for the 910B1; 0 means one or two, by the banks of the sources.
TWIN_BINARY(Add, arithmetic, 0, x + y)
TWIN_BINARY(Sub, arithmetic, 0, x - y)
TWIN_BINARY(Mul, arithmetic, 0, x * y)
TWIN_BINARY(Div, floats, 4, x / y)
TWIN_BINARY(Max, arithmetic, 0, x > y ? x : y)
TWIN_BINARY(Min, arithmetic, 0, x < y ? x : y)
TWIN_BINARY(And, bits16, 0, x & y)
TWIN_BINARY(Or, bits16, 0, x | y)

TWIN_UNARY(Exp, floats, twin::slowHalf<T>(2), std::exp(float(x)))
TWIN_UNARY(Ln, floats, twin::slowHalf<T>(2), std::log(float(x)))
TWIN_UNARY(Abs, floats, 1, std::fabs(float(x)))
TWIN_UNARY(Sqrt, floats, 2, std::sqrt(float(x)))
TWIN_UNARY(Rsqrt, floats, 1, 1.0f / std::sqrt(float(x)))
TWIN_UNARY(Reciprocal, floats, 1, 1.0f / float(x))
TWIN_UNARY(Relu, floats || twin::Kind<T>::i32, 1, x > T(0) ? x : T(0))
TWIN_UNARY(Not, bits16, 1, ~x)

TWIN_SCALAR(Adds, arithmetic, 1, x + y)
TWIN_SCALAR(Muls, arithmetic, 1, x * y)
TWIN_SCALAR(Maxs, arithmetic, 1, x > y ? x : y)
TWIN_SCALAR(Mins, arithmetic, 1, x < y ? x : y)
TWIN_SCALAR(LeakyRelu, floats, 1, x > T(0) ? x : T(x * y))

}  // namespace AscendC
