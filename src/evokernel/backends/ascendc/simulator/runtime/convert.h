// Cast: the type pairs and rounding modes of the chip, and the conversion of a number.
#pragma once
#include "vector.h"

namespace simulator {

using AscendC::RoundMode;

inline const char* roundName(RoundMode mode) {
  static const char* names[] = {"CAST_NONE", "CAST_RINT", "CAST_FLOOR", "CAST_CEIL", "CAST_ROUND", "CAST_TRUNC", "CAST_ODD"};
  return int(mode) < 7 ? names[int(mode)] : "?";
}

// Sets of rounding modes, as bits.
constexpr int bitOf(RoundMode mode) { return 1 << int(mode); }
constexpr int NONE_ONLY = bitOf(RoundMode::CAST_NONE);
constexpr int FIVE = bitOf(RoundMode::CAST_RINT) | bitOf(RoundMode::CAST_FLOOR) | bitOf(RoundMode::CAST_CEIL) | bitOf(RoundMode::CAST_ROUND) |
                     bitOf(RoundMode::CAST_TRUNC);
constexpr int ANY = 127;

// The rounding modes of a cast from S to D on this chip; empty if the cast does not exist.
template <typename D, typename S> constexpr int roundings() {
  using AscendC::IsSameType;
  constexpr bool toHalf = IsSameType<D, half>::value, toFloat = IsSameType<D, float>::value, toInt = IsSameType<D, int32_t>::value;
  if (IsSameType<S, int4b_t>::value || IsSameType<S, int8_t>::value || IsSameType<S, uint8_t>::value) return toHalf ? NONE_ONLY : 0;
  if (IsSameType<S, int16_t>::value) return toHalf ? FIVE | NONE_ONLY : toFloat ? NONE_ONLY : 0;
  if (IsSameType<S, half>::value) {
    if (toFloat) return NONE_ONLY;
    if (toInt || IsSameType<D, int16_t>::value) return FIVE;
    return IsSameType<D, int4b_t>::value || IsSameType<D, int8_t>::value || IsSameType<D, uint8_t>::value ? FIVE | NONE_ONLY : 0;
  }
  if (IsSameType<S, bfloat16_t>::value) return toFloat ? NONE_ONLY : toInt ? FIVE : 0;
  if (IsSameType<S, int32_t>::value) {
    if (toFloat) return FIVE | NONE_ONLY;
    if (toHalf) return ANY;  // with the scale of the last SetDeqScale
    return IsSameType<D, int16_t>::value || IsSameType<D, int64_t>::value ? NONE_ONLY : 0;
  }
  if (IsSameType<S, float>::value) {
    if (toHalf) return ANY;
    constexpr bool whole = toInt || IsSameType<D, int16_t>::value || IsSameType<D, int64_t>::value;
    return whole || toFloat || IsSameType<D, bfloat16_t>::value ? FIVE : 0;
  }
  if (IsSameType<S, int64_t>::value) return toInt ? NONE_ONLY : toFloat ? FIVE : 0;
  return 0;
}

// ---- rounding to an integer

inline double wholeNumber(double x, RoundMode mode) {
  switch (mode) {
    case RoundMode::CAST_FLOOR: return std::floor(x);
    case RoundMode::CAST_CEIL: return std::ceil(x);
    case RoundMode::CAST_ROUND: return std::round(x);
    case RoundMode::CAST_TRUNC: return std::trunc(x);
    default: return std::nearbyint(x);
  }
}
template <typename D> inline D saturated(double x) {
  if (x != x) return 0;
  if (x <= double(std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
  if (x >= double(std::numeric_limits<D>::max())) return std::numeric_limits<D>::max();
  return D(x);
}

// ---- rounding to a floating-point type with fewer digits

// half and bfloat16_t: the next bit pattern
template <typename H> inline H nextUp(H x) {
  uint16_t bits = x.bits;
  if ((bits & 0x7fff) == 0) bits = 1;
  else bits = uint16_t(bits & 0x8000 ? bits - 1 : bits + 1);
  H next;
  next.bits = bits;
  return next;
}
inline float nextUp(float x) { return std::nextafter(x, INFINITY); }
template <typename D> inline D nextDown(D x) { return D(-float(nextUp(D(-float(x))))); }

inline void makeOdd(half& x) { x.bits |= 1; }
inline void makeOdd(bfloat16_t& x) { x.bits |= 1; }
inline void makeOdd(float&) {}

// X is wide enough to hold the source exactly.
template <typename D, typename X> inline D fewerDigits(X x, RoundMode mode) {
  D near = D(float(x));  // only one rounding happens: a source that float cannot represent is only cast to float
  if (x != x || X(float(near)) == x) return near;
  D below = X(float(near)) < x ? near : nextDown(near), above = X(float(near)) < x ? nextUp(near) : near;
  if (std::isinf(x)) return near;
  D inner = x < 0 ? above : below, outer = x < 0 ? below : above;  // towards zero, away from it
  switch (mode) {
    case RoundMode::CAST_FLOOR: return below;
    case RoundMode::CAST_CEIL: return above;
    case RoundMode::CAST_TRUNC: return inner;
    case RoundMode::CAST_ROUND: {
      if (std::isinf(float(outer))) return near;
      X toInner = x - X(float(inner)), toOuter = X(float(outer)) - x;
      return (x < 0 ? -toInner : toInner) < (x < 0 ? -toOuter : toOuter) ? inner : outer;
    }
    case RoundMode::CAST_ODD: makeOdd(inner); return inner;
    default: return near;
  }
}

// ---- one element

template <typename D, typename S> inline D convert(S x, RoundMode mode) {
  constexpr bool toWhole = std::is_integral<D>::value, fromWhole = std::is_integral<S>::value;
  if constexpr (toWhole && fromWhole) {
    if (x <= S(std::numeric_limits<D>::min()) && sizeof(D) < sizeof(S)) return std::numeric_limits<D>::min();
    if (x >= S(std::numeric_limits<D>::max()) && sizeof(D) < sizeof(S)) return std::numeric_limits<D>::max();
    return D(x);
  } else if constexpr (toWhole) {
    return saturated<D>(wholeNumber(double(float(x)), mode));
  } else if constexpr (std::is_same<S, int32_t>::value && std::is_same<D, half>::value) {
    return half(float(x) * core->registers.deqScale);  // the scale of the last SetDeqScale; the rounding mode has no effect
  } else if constexpr (fromWhole && sizeof(S) == 8) {
    return fewerDigits<D>(static_cast<long double>(x), mode);
  } else if constexpr (fromWhole) {
    return fewerDigits<D>(double(x), mode);
  } else if constexpr (std::is_same<D, S>::value) {
    return D(wholeNumber(double(float(x)), mode));
  } else {
    return fewerDigits<D>(double(float(x)), mode);
  }
}

template <typename D, typename S> inline bool castable(RoundMode mode) {
  constexpr int known = roundings<D, S>();
  if (known & bitOf(mode)) return true;
  if (!known) reportViolation("E-CAST-PAIR", "Cast from %s to %s does not exist on this chip", typeName<S>(), typeName<D>());
  else reportViolation("E-CAST-PAIR", "Cast from %s to %s does not support RoundMode::%s", typeName<S>(), typeName<D>(), roundName(mode));
  return known != 0;
}

// A byte holds two 4-bit numbers, the first in its lower half.
template <typename D, typename S>
inline void castFourBits(const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<S>& src, RoundMode mode, uint32_t count) {
  const char* what = "Cast";
  forgetMask();
  if (nothing(count, what)) return;
  if (count % 2) reportViolation("E-COUNT", "Cast of int4b_t: the count %u is odd, but a byte holds two elements", count);
  vectorCost(uint64_t(count) * 2, 1);
  constexpr bool packs = std::is_same<D, int4b_t>::value;
  source(V, src, packs ? uint64_t(count) * 2 : (count + 1) / 2, what);
  target(V, dst, packs ? (count + 1) / 2 : uint64_t(count) * 2, what);
  if (isDry()) return;
  for (uint32_t i = 0; i < count; i++) {
    int shift = i % 2 * 4;
    if constexpr (packs) {
      uint8_t& byte = dst.data()[i / 2].bits;
      int value = std::min(7, std::max(-8, int(saturated<int8_t>(wholeNumber(float(src.data()[i]), mode)))));
      byte = uint8_t((byte & ~(15 << shift)) | ((value & 15) << shift));
    } else {
      int value = (src.data()[i / 2].bits >> shift) & 15;
      dst.data()[i] = D(value < 8 ? value : value - 16);
    }
  }
}
template <typename D, typename S> constexpr bool fourBits = std::is_same<D, int4b_t>::value || std::is_same<S, int4b_t>::value;

// Mask is a number of lanes or an array of bits.
template <typename T, typename U, bool isSetMask, typename Mask>
inline void castRepeat(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& src, AscendC::RoundMode mode, Mask mask,
                       uint8_t repeatTime, const AscendC::UnaryRepeatParams& by) {
  if (!castable<T, U>(mode)) return;
  using Wider = std::conditional_t<(sizeof(T) > sizeof(U)), T, U>;
  unaryRepeat("Cast", dst, src, maskOf<Wider, isSetMask>(mask, "Cast"), repeatTime, {by.dstBlkStride, by.dstRepStride},
              {by.srcBlkStride, by.srcRepStride}, 1, [mode](U x) { return convert<T>(x, mode); });
}

}  // namespace simulator

namespace AscendC {

template <typename T, typename U>
inline void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, const uint32_t count) {
  if (!simulator::castable<T, U>(roundMode)) return;
  const RoundMode mode = roundMode;
  if constexpr (simulator::fourBits<T, U>) simulator::castFourBits(dst, src, mode, count);
  else simulator::unary("Cast", dst, src, count, 1, [mode](U x) { return simulator::convert<T>(x, mode); });
}
template <typename T, typename U, bool isSetMask = true>
inline void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, const uint64_t mask,
                 const uint8_t repeatTime, const UnaryRepeatParams& by) {
  simulator::castRepeat<T, U, isSetMask>(dst, src, roundMode, mask, repeatTime, by);
}
template <typename T, typename U, bool isSetMask = true>
inline void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, const uint64_t mask[],
                 const uint8_t repeatTime, const UnaryRepeatParams& by) {
  simulator::castRepeat<T, U, isSetMask>(dst, src, roundMode, mask, repeatTime, by);
}

}  // namespace AscendC
