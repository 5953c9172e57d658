// Mathematics of the library, element by element, with the precision of the standard library.
#pragma once
#include "library.h"

namespace twin {

inline float sign(float x) { return float((x > 0) - (x < 0)); }

inline float digamma(float given) {
  double x = given, result = 0;
  if (x <= 0 && std::floor(x) == x) return std::numeric_limits<float>::quiet_NaN();
  if (x < 0) return float(digamma(float(1 - x)) - M_PI / std::tan(M_PI * x));
  for (; x < 6; x += 1) result -= 1 / x;
  double inverse = 1 / (x * x);
  return float(result + std::log(x) - 0.5 / x - inverse * (1.0 / 12 - inverse * (1.0 / 120 - inverse / 252)));
}

// A power of integers, by squaring, with the overflow that registers have.
template <typename T> inline T power(T base, T exponent) {
  if constexpr (std::is_integral<T>::value) {
    if (exponent < 0) return base == 1 ? T(1) : base == T(-1) ? (exponent % 2 ? T(-1) : T(1)) : T(0);
    std::make_unsigned_t<T> result = 1, factor = std::make_unsigned_t<T>(base);
    for (; exponent > 0; exponent = T(exponent / 2)) {
      if (exponent % 2) result *= factor;
      factor *= factor;
    }
    return T(result);
  } else {
    return T(std::pow(float(base), float(exponent)));
  }
}

}  // namespace twin

namespace AscendC {

TWIN_LIBRARY_PLAIN(Log, floats, 5, 1, false, std::log(x))
TWIN_LIBRARY_PLAIN(Log10, floats, 5, 2, false, std::log10(x))
TWIN_LIBRARY(Log2, floats, 5, 2, 0, 2, false, std::log2(x))
TWIN_LIBRARY(Erf, floats, 30, 24, 3, 8, false, std::erf(x))
TWIN_LIBRARY(Erfc, floats, 30, 30, 7, 16, true, std::erfc(x))
TWIN_LIBRARY(Sin, floats, 25, 20, 4, 8, true, std::sin(x))
TWIN_LIBRARY(Cos, floats, 25, 20, 4, 8, true, std::cos(x))
TWIN_LIBRARY(Tan, floats, 30, 26, 4, 10, true, std::tan(x))
TWIN_LIBRARY(Asin, floats, 25, 20, 2, 6, true, std::asin(x))
TWIN_LIBRARY(Acos, floats, 25, 20, 2, 6, true, std::acos(x))
TWIN_LIBRARY(Atan, floats, 25, 20, 5, 12, true, std::atan(x))
TWIN_LIBRARY(Sinh, floats, 12, 7, 1, 4, true, std::sinh(x))
TWIN_LIBRARY(Cosh, floats, 12, 7, 2, 6, true, std::cosh(x))
TWIN_LIBRARY(Asinh, floats, 15, 10, 3, 3, true, std::asinh(x))
TWIN_LIBRARY(Acosh, floats, 15, 8, 1, 2, true, std::acosh(x))
TWIN_LIBRARY(Atanh, floats, 15, 8, 1, 4, true, std::atanh(x))
TWIN_LIBRARY(Frac, floats, 3, 3, 0, 4, true, x - std::trunc(x))
TWIN_LIBRARY(Sign, floats, 4, 5, 3, 3, true, twin::sign(x))
TWIN_LIBRARY(Trunc, floats, 2, 1, 0, 2, false, std::trunc(x))
TWIN_LIBRARY_COUNT(Ceil, floats, 2, 1, 0, 2, false, std::ceil(x))
TWIN_LIBRARY_COUNT(Floor, floats, 2, 1, 0, 2, false, std::floor(x))
TWIN_LIBRARY_COUNT(Round, floats, 2, 1, 0, 1, false, std::nearbyint(x))
TWIN_LIBRARY_COUNT(Lgamma, floats, 60, 50, 8, 13, true, std::lgamma(x))
TWIN_LIBRARY_COUNT(Digamma, floats, 60, 50, 7, 16, true, twin::digamma(x))
TWIN_LIBRARY_TWO(Fmod, floats, 8, 5, 1, 6, true, std::fmod(float(x), float(y)))
TWIN_LIBRARY_TWO(Hypot, floats, 12, 10, 2, 6, true, std::hypot(float(x), float(y)))
TWIN_LIBRARY_TWO(Xor, bits16, 4, 4, 1, 1, true, x ^ y)

// ---- Exp with more terms than the instruction's own precision
template <typename T, uint8_t taylorExpandLevel, bool isReuseSource = false>
inline void Exp(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t count) {
  twin::Recipe recipe{"Exp", 6.0 + 3 * taylorExpandLevel, 5 + 3 * taylorExpandLevel, 3, 8, true};
  twin::takes<twin::Kind<T>::floats, T>("Exp");
  uint64_t scratch = twin::scratch(sharedTmpBuffer, twin::leastScratch<T>(recipe), "Exp");
  twin::element1(recipe, dst, src, scratch, count, [](float x) { return std::exp(x); });
}
template <typename T, uint8_t taylorExpandLevel, bool isReuseSource = false>
inline void Exp(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count) {
  twin::Recipe recipe{"Exp", 6.0 + 3 * taylorExpandLevel, 5 + 3 * taylorExpandLevel, 3, 8, true};
  twin::takes<twin::Kind<T>::floats, T>("Exp");
  twin::element1(recipe, dst, src, twin::scratch(twin::leastScratch<T>(recipe), "Exp"), count, [](float x) { return std::exp(x); });
}

}  // namespace AscendC

namespace twin {

constexpr Recipe POWER{"Power", 40, 30, 5, 14, true};

template <typename T> inline void powerTypes() { takes<Kind<T>::floats || Kind<T>::i32, T>("Power"); }
template <typename T>
inline void powers(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& base, const AscendC::LocalTensor<T>& exponent,
                   uint64_t scratchBytes, uint32_t count) {
  powerTypes<T>();
  element2(POWER, dst, base, exponent, scratchBytes, count, [](T x, T y) { return power<T>(x, y); });
}
// One side is a scalar: `f` knows it.
template <typename T, typename F>
inline void powersOf(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& tensor, uint64_t scratchBytes, uint32_t count,
                     F f) {
  powerTypes<T>();
  if (nothing(count, "Power")) return;
  uint64_t bytes = uint64_t(count) * sizeof(T);
  recipeCost<T>(POWER, count, scratchBytes);
  Doubt doubt;
  doubt.source(tensor, count, "Power");
  doubt.target(dst, count, "Power");
  apart(dst, bytes, tensor, bytes, false, "Power");
  for (uint32_t i = 0; i < count; i++) dst.data()[i] = f(tensor.data()[i]);
}
template <typename T> inline uint64_t powerScratch() { return scratch(leastScratch<T>(POWER), "Power"); }
template <typename T> inline uint64_t powerScratch(const AscendC::LocalTensor<uint8_t>& buffer) {
  return scratch(buffer, leastScratch<T>(POWER), "Power");
}

}  // namespace twin

namespace AscendC {

#define TWIN_POWER template <typename T, bool isReuseSource = false, const auto& config = twin::NO_CONFIG> inline void
TWIN_POWER Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                 const LocalTensor<uint8_t>& sharedTmpBuffer, uint32_t count) {
  twin::powers(dst, src0, src1, twin::powerScratch<T>(sharedTmpBuffer), count);
}
TWIN_POWER Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint32_t count) {
  twin::powers(dst, src0, src1, twin::powerScratch<T>(), count);
}
TWIN_POWER Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                 const LocalTensor<uint8_t>& sharedTmpBuffer) {
  twin::powers(dst, src0, src1, twin::powerScratch<T>(sharedTmpBuffer), src0.GetSize());
}
TWIN_POWER Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1) {
  twin::powers(dst, src0, src1, twin::powerScratch<T>(), src0.GetSize());
}
TWIN_POWER Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const T& src1, const LocalTensor<uint8_t>& sharedTmpBuffer,
                 uint32_t count) {
  twin::powersOf(dst, src0, twin::powerScratch<T>(sharedTmpBuffer), count, [src1](T x) { return twin::power<T>(x, src1); });
}
TWIN_POWER Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const T& src1, uint32_t count) {
  twin::powersOf(dst, src0, twin::powerScratch<T>(), count, [src1](T x) { return twin::power<T>(x, src1); });
}
TWIN_POWER Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const T& src1, const LocalTensor<uint8_t>& sharedTmpBuffer) {
  Power<T, isReuseSource, config>(dst, src0, src1, sharedTmpBuffer, src0.GetSize());
}
TWIN_POWER Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const T& src1) {
  Power<T, isReuseSource, config>(dst, src0, src1, src0.GetSize());
}
TWIN_POWER Power(const LocalTensor<T>& dst, const T& src0, const LocalTensor<T>& src1, const LocalTensor<uint8_t>& sharedTmpBuffer,
                 uint32_t count) {
  twin::powersOf(dst, src1, twin::powerScratch<T>(sharedTmpBuffer), count, [src0](T x) { return twin::power<T>(src0, x); });
}
TWIN_POWER Power(const LocalTensor<T>& dst, const T& src0, const LocalTensor<T>& src1, uint32_t count) {
  twin::powersOf(dst, src1, twin::powerScratch<T>(), count, [src0](T x) { return twin::power<T>(src0, x); });
}
TWIN_POWER Power(const LocalTensor<T>& dst, const T& src0, const LocalTensor<T>& src1, const LocalTensor<uint8_t>& sharedTmpBuffer) {
  Power<T, isReuseSource, config>(dst, src0, src1, sharedTmpBuffer, src1.GetSize());
}
TWIN_POWER Power(const LocalTensor<T>& dst, const T& src0, const LocalTensor<T>& src1) {
  Power<T, isReuseSource, config>(dst, src0, src1, src1.GetSize());
}
#undef TWIN_POWER

// ---- limits
#define TWIN_CLAMP(NAME, CHOOSE)                                                                                                      \
  template <typename T, bool isReuseSource = false>                                                                                   \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer, const T scalar, \
                   const uint32_t count) {                                                                                            \
    constexpr twin::Recipe recipe{#NAME, 2, 2, 1, 1, false};                                                                          \
    twin::takes<twin::Kind<T>::floats, T>(#NAME);                                                                                     \
    uint64_t scratch = twin::scratch(sharedTmpBuffer, twin::leastScratch<T>(recipe), #NAME);                                          \
    float limit = float(scalar);                                                                                                      \
    twin::element1(recipe, dst, src, scratch, count, [limit](float x) { return CHOOSE(x, limit); });                                  \
  }                                                                                                                                   \
  template <typename T, bool isReuseSource = false>                                                                                   \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T scalar, const uint32_t count) {                      \
    constexpr twin::Recipe recipe{#NAME, 2, 2, 1, 1, false};                                                                          \
    twin::takes<twin::Kind<T>::floats, T>(#NAME);                                                                                     \
    float limit = float(scalar);                                                                                                      \
    twin::element1(recipe, dst, src, twin::scratch(twin::leastScratch<T>(recipe), #NAME), count,                                      \
                   [limit](float x) { return CHOOSE(x, limit); });                                                                    \
  }
TWIN_CLAMP(ClampMax, std::min)
TWIN_CLAMP(ClampMin, std::max)
#undef TWIN_CLAMP

// dst + scalar * src, through scratch memory where the types differ.
template <typename T, typename U, bool isReuseSource = false>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U scalarValue, const LocalTensor<uint8_t>& sharedTmpBuffer,
                 const uint32_t count) {
  constexpr twin::Recipe recipe{"Axpy", 4, 3, 1, 4, false};
  twin::takes<twin::Kind<T>::floats && twin::Kind<U>::floats, T>("Axpy");
  if (twin::nothing(count, "Axpy")) return;
  twin::recipeCost<T>(recipe, count, twin::scratch(sharedTmpBuffer, twin::leastScratch<T>(recipe), "Axpy"));
  twin::source(twin::V, src, uint64_t(count) * sizeof(U), "Axpy");
  twin::source(twin::V, dst, uint64_t(count) * sizeof(T), "Axpy");
  twin::target(twin::V, dst, uint64_t(count) * sizeof(T), "Axpy");
  for (uint32_t i = 0; i < count; i++) dst.data()[i] = T(float(dst.data()[i]) + float(scalarValue) * float(src.data()[i]));
}

}  // namespace AscendC
