// Fused instructions: multiply and add, add and clip, and both with a cast of the result.
#pragma once
#include "convert.h"

namespace simulator {

// Instructions that also read their destination: F takes the old value and one or two sources.
template <typename F, typename D, typename T, typename U>
inline void update(const char* what, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<T>& one,
                   const AscendC::LocalTensor<U>& other, int64_t count, double cycles, F f) {
  forgetMask();
  if (nothing(count, what)) return;
  vectorCost(uint64_t(count) * sizeof(D), cycles);
  Doubt doubt;
  doubt.source(one, uint64_t(count), what);
  doubt.source(other, uint64_t(count), what);
  doubt.source(dst, uint64_t(count), what);
  doubt.target(dst, uint64_t(count), what);
  if (isDry()) return;
  for (int64_t i = 0; i < count; i++) dst.data()[i] = f(dst.data()[i], one.data()[i], other.data()[i]);
}
template <typename F, typename D, typename T>
inline void updateRepeat(const char* what, const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<T>& one,
                         const AscendC::LocalTensor<T>& other, const Lanes& given, int count, const AscendC::BinaryRepeatParams& by,
                         double cycles, F f) {
  constexpr int width = int(256 / std::max(sizeof(T), sizeof(D)));
  Work work = workOf(given, count, width, what);
  Stride to{by.dstBlkStride, by.dstRepStride}, a{by.src0BlkStride, by.src0RepStride}, b{by.src1BlkStride, by.src1RepStride};
  vectorCost(256ull * uint64_t(work.repeats), cycles);
  Doubt doubt;
  doubt.source(one, work, a, width, what);
  doubt.source(other, work, b, width, what);
  doubt.source(dst, work, to, width, what);
  doubt.target(dst, work, to, width, what);
  if (isDry()) return;
  for (int r = 0; r < work.repeats; r++)
    for (int lane = 0; lane < width; lane++) {
      if (!work.of(r).on(lane)) continue;
      D& into = dst.data()[element<D>(r, lane, to)];
      into = f(into, one.data()[element<T>(r, lane, a)], other.data()[element<T>(r, lane, b)]);
    }
}

template <typename D, typename S> constexpr bool accumulates = Kind<D>::floats && (std::is_same<D, S>::value || (Kind<D>::f32 && Kind<S>::f16));
template <typename D, typename S> using Wider = std::conditional_t<(sizeof(D) > sizeof(S)), D, S>;

// Cycles of multiply-and-add, published as madd and mla.
constexpr double MULTIPLY_ADD = 6;

// Mask is a number of lanes or an array of bits, as in all masked instructions.
template <typename T, typename U, bool isSetMask, typename Mask>
inline void axpyRepeat(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& src, const U& scalarValue, Mask mask,
                       uint8_t repeatTime, const AscendC::UnaryRepeatParams& by) {
  takes<accumulates<T, U>, U>("Axpy");
  const U scalar = scalarValue;
  AscendC::BinaryRepeatParams both(uint8_t(by.dstBlkStride), uint8_t(by.srcBlkStride), uint8_t(by.srcBlkStride), by.dstRepStride,
                                   by.srcRepStride, by.srcRepStride);
  updateRepeat("Axpy", dst, src, src, maskOf<Wider<T, U>, isSetMask>(mask, "Axpy"), repeatTime, both, twoSources(dst, src),
               [scalar](T sum, U x, U) { return T(sum + T(x) * T(scalar)); });
}

}  // namespace simulator

namespace AscendC {

// dst += src * scalar. Uses the cycles of any instruction with two sources, because none are published.
template <typename T, typename U>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, const int32_t& count) {
  simulator::takes<simulator::accumulates<T, U>, U>("Axpy");
  const U scalar = scalarValue;
  simulator::update("Axpy", dst, src, src, count, simulator::twoSources(dst, src), [scalar](T sum, U x, U) { return T(sum + T(x) * T(scalar)); });
}
template <typename T, typename U, bool isSetMask = true>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, uint64_t mask, const uint8_t repeatTime,
                 const UnaryRepeatParams& by) {
  simulator::axpyRepeat<T, U, isSetMask>(dst, src, scalarValue, mask, repeatTime, by);
}
template <typename T, typename U, bool isSetMask = true>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, uint64_t mask[], const uint8_t repeatTime,
                 const UnaryRepeatParams& by) {
  simulator::axpyRepeat<T, U, isSetMask>(dst, src, scalarValue, mask, repeatTime, by);
}

// dst += src0 * src1, where a float destination may have half sources.
template <typename T, typename U>
inline void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, const int32_t& count) {
  simulator::takes<simulator::accumulates<T, U>, U>("MulAddDst");
  simulator::update("MulAddDst", dst, src0, src1, count, simulator::MULTIPLY_ADD, [](T sum, U x, U y) { return T(sum + T(x) * T(y)); });
}
template <typename T, typename U, bool isSetMask = true>
inline void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, uint64_t mask,
                      const uint8_t repeatTime, const BinaryRepeatParams& by) {
  simulator::takes<simulator::accumulates<T, U>, U>("MulAddDst");
  simulator::updateRepeat("MulAddDst", dst, src0, src1, simulator::maskOf<simulator::Wider<T, U>, isSetMask>(mask, "MulAddDst"), repeatTime, by,
                     simulator::MULTIPLY_ADD,
                     [](T sum, U x, U y) { return T(sum + T(x) * T(y)); });
}
template <typename T, typename U, bool isSetMask = true>
inline void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, const uint64_t mask[],
                      const uint8_t repeatTime, const BinaryRepeatParams& by) {
  simulator::takes<simulator::accumulates<T, U>, U>("MulAddDst");
  simulator::updateRepeat("MulAddDst", dst, src0, src1, simulator::maskOf<simulator::Wider<T, U>, isSetMask>(mask, "MulAddDst"), repeatTime, by,
                     simulator::MULTIPLY_ADD,
                     [](T sum, U x, U y) { return T(sum + T(x) * T(y)); });
}

}  // namespace AscendC

// Three overloads of an instruction that reads the old value of its destination, `was`.
#define SIMULATOR_UPDATE(NAME, EXPRESSION)                                                                                                                     \
  template <typename T> inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const int32_t& count) {        \
    simulator::takes<simulator::Kind<T>::floats, T>(#NAME);                                                                                                         \
    simulator::update(#NAME, dst, src0, src1, count, simulator::MULTIPLY_ADD, [](T was, T x, T y) { return T(EXPRESSION); });                                       \
  }                                                                                                                                                       \
  template <typename T, bool isSetMask = true>                                                                                                            \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask, const uint8_t repeatTime,            \
                   const BinaryRepeatParams& by) {                                                                                                        \
    simulator::takes<simulator::Kind<T>::floats, T>(#NAME);                                                                                                         \
    simulator::updateRepeat(#NAME, dst, src0, src1, simulator::maskOf<T, isSetMask>(mask, #NAME), repeatTime, by, simulator::MULTIPLY_ADD,                               \
                       [](T was, T x, T y) { return T(EXPRESSION); });                                                                                    \
  }                                                                                                                                                       \
  template <typename T, bool isSetMask = true>                                                                                                            \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask[], const uint8_t repeatTime,          \
                   const BinaryRepeatParams& by) {                                                                                                        \
    simulator::takes<simulator::Kind<T>::floats, T>(#NAME);                                                                                                         \
    simulator::updateRepeat(#NAME, dst, src0, src1, simulator::maskOf<T, isSetMask>(mask, #NAME), repeatTime, by, simulator::MULTIPLY_ADD,                               \
                       [](T was, T x, T y) { return T(EXPRESSION); });                                                                                    \
  }

// Three overloads of an instruction on two sources that casts its result; X can represent the exact intermediate result.
#define SIMULATOR_BINARY_CAST(NAME, ALLOWED, CYCLES, EXPRESSION)                                                                                               \
  template <typename T, typename U> inline void NAME(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, const uint32_t count) { \
    simulator::takes<ALLOWED, U>(#NAME);                                                                                                                       \
    simulator::binary(#NAME, dst, src0, src1, count, CYCLES, [](U x, U y) { return simulator::convert<T>(U(EXPRESSION), RoundMode::CAST_RINT); });                  \
  }                                                                                                                                                       \
  template <typename T, typename U, bool isSetMask = true>                                                                                                \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, uint64_t mask, const uint8_t repeatTime,            \
                   const BinaryRepeatParams& by) {                                                                                                        \
    simulator::takes<ALLOWED, U>(#NAME);                                                                                                                       \
    simulator::binaryRepeat(#NAME, dst, src0, src1, simulator::maskOf<U, isSetMask>(mask, #NAME), repeatTime, by, CYCLES,                                           \
                       [](U x, U y) { return simulator::convert<T>(U(EXPRESSION), RoundMode::CAST_RINT); });                                                   \
  }                                                                                                                                                       \
  template <typename T, typename U, bool isSetMask = true>                                                                                                \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, uint64_t mask[], const uint8_t repeatTime,          \
                   const BinaryRepeatParams& by) {                                                                                                        \
    simulator::takes<ALLOWED, U>(#NAME);                                                                                                                       \
    simulator::binaryRepeat(#NAME, dst, src0, src1, simulator::maskOf<U, isSetMask>(mask, #NAME), repeatTime, by, CYCLES,                                           \
                       [](U x, U y) { return simulator::convert<T>(U(EXPRESSION), RoundMode::CAST_RINT); });                                                   \
  }

namespace simulator {
template <typename D, typename S> constexpr bool clipsAndCasts =
    (Kind<S>::f16 && std::is_same<D, int8_t>::value) || (Kind<S>::f32 && Kind<D>::f16) || (Kind<S>::i16 && std::is_same<D, int8_t>::value);
template <typename D, typename S> constexpr bool multipliesAndCasts =
    Kind<S>::f16 && (std::is_same<D, int8_t>::value || std::is_same<D, uint8_t>::value);
}  // namespace simulator

namespace AscendC {

SIMULATOR_UPDATE(FusedMulAdd, x * was + y)
SIMULATOR_UPDATE(FusedMulAddRelu, std::max(0.0f, float(x * was + y)))
SIMULATOR_UPDATE(MulAddRelu, std::max(0.0f, float(x * was + y)))
SIMULATOR_BINARY_CAST(AddReluCast, (simulator::clipsAndCasts<T, U>), 0, x + y > U(0) ? U(x + y) : U(0))
SIMULATOR_BINARY_CAST(SubReluCast, (simulator::clipsAndCasts<T, U>), 0, x - y > U(0) ? U(x - y) : U(0))
SIMULATOR_BINARY_CAST(MulCast, (simulator::multipliesAndCasts<T, U>), 2, x * y)

}  // namespace AscendC
