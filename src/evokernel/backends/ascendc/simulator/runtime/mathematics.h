// Element-wise mathematical functions of the library, with the precision of the standard library.
#pragma once
#include "library.h"

namespace simulator {

inline float sign(float x) { return float((x > 0) - (x < 0)); }

inline float digamma(float given) {
  double x = given, result = 0;
  if (x <= 0 && std::floor(x) == x) return std::numeric_limits<float>::quiet_NaN();
  if (x < 0) return float(digamma(float(1 - x)) - M_PI / std::tan(M_PI * x));
  for (; x < 6; x += 1) result -= 1 / x;
  double inverse = 1 / (x * x);
  return float(result + std::log(x) - 0.5 / x - inverse * (1.0 / 12 - inverse * (1.0 / 120 - inverse / 252)));
}

// Integer power by squaring, with register overflow.
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

}  // namespace simulator

namespace AscendC {

SIMULATOR_LIBRARY_PLAIN(Log, floats, 5, 1, false, std::log(x))
SIMULATOR_LIBRARY_PLAIN(Log10, floats, 5, 2, false, std::log10(x))
SIMULATOR_LIBRARY(Log2, floats, 5, 2, 0, 2, false, std::log2(x))
SIMULATOR_LIBRARY(Erf, floats, 30, 24, 3, 8, false, std::erf(x))
SIMULATOR_LIBRARY(Erfc, floats, 30, 30, 7, 16, true, std::erfc(x))
SIMULATOR_LIBRARY(Sin, floats, 25, 20, 4, 8, true, std::sin(x))
SIMULATOR_LIBRARY(Cos, floats, 25, 20, 4, 8, true, std::cos(x))
SIMULATOR_LIBRARY(Tan, floats, 30, 26, 4, 10, true, std::tan(x))
SIMULATOR_LIBRARY(Asin, floats, 25, 20, 2, 6, true, std::asin(x))
SIMULATOR_LIBRARY(Acos, floats, 25, 20, 2, 6, true, std::acos(x))
SIMULATOR_LIBRARY(Atan, floats, 25, 20, 5, 12, true, std::atan(x))
SIMULATOR_LIBRARY(Sinh, floats, 12, 7, 1, 4, true, std::sinh(x))
SIMULATOR_LIBRARY(Cosh, floats, 12, 7, 2, 6, true, std::cosh(x))
SIMULATOR_LIBRARY(Asinh, floats, 15, 10, 3, 3, true, std::asinh(x))
SIMULATOR_LIBRARY(Acosh, floats, 15, 8, 1, 2, true, std::acosh(x))
SIMULATOR_LIBRARY(Atanh, floats, 15, 8, 1, 4, true, std::atanh(x))
SIMULATOR_LIBRARY(Frac, floats, 3, 3, 0, 4, true, x - std::trunc(x))
SIMULATOR_LIBRARY(Sign, floats, 4, 5, 3, 3, true, simulator::sign(x))
SIMULATOR_LIBRARY(Trunc, floats, 2, 1, 0, 2, false, std::trunc(x))
SIMULATOR_LIBRARY_COUNT(Ceil, floats, 2, 1, 0, 2, false, std::ceil(x))
SIMULATOR_LIBRARY_COUNT(Floor, floats, 2, 1, 0, 2, false, std::floor(x))
SIMULATOR_LIBRARY_COUNT(Round, floats, 2, 1, 0, 1, false, std::nearbyint(x))
SIMULATOR_LIBRARY_COUNT(Lgamma, floats, 60, 50, 8, 13, true, std::lgamma(x))
SIMULATOR_LIBRARY_COUNT(Digamma, floats, 60, 50, 7, 16, true, simulator::digamma(x))
SIMULATOR_LIBRARY_TWO(Fmod, floats, 8, 5, 1, 6, true, std::fmod(float(x), float(y)))
SIMULATOR_LIBRARY_TWO(Hypot, floats, 12, 10, 2, 6, true, std::hypot(float(x), float(y)))
SIMULATOR_LIBRARY_TWO(Xor, bits16, 4, 4, 1, 1, true, x ^ y)

// ---- Exp with a Taylor expansion of higher precision than the instruction
template <typename T, uint8_t taylorExpandLevel, bool isReuseSource = false>
inline void Exp(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t count) {
  simulator::Recipe recipe{"Exp", 6.0 + 3 * taylorExpandLevel, 5 + 3 * taylorExpandLevel, 3, 8, true};
  simulator::takes<simulator::Kind<T>::floats, T>("Exp");
  uint64_t scratch = simulator::scratch(sharedTmpBuffer, simulator::leastScratch<T>(recipe), "Exp");
  simulator::element1(recipe, dst, src, scratch, count, [](float x) { return std::exp(x); });
}
template <typename T, uint8_t taylorExpandLevel, bool isReuseSource = false>
inline void Exp(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count) {
  simulator::Recipe recipe{"Exp", 6.0 + 3 * taylorExpandLevel, 5 + 3 * taylorExpandLevel, 3, 8, true};
  simulator::takes<simulator::Kind<T>::floats, T>("Exp");
  simulator::element1(recipe, dst, src, simulator::scratch(simulator::leastScratch<T>(recipe), "Exp"), count, [](float x) { return std::exp(x); });
}

}  // namespace AscendC

namespace simulator {

constexpr Recipe POWER{"Power", 40, 30, 5, 14, true};

template <typename T> inline void powerTypes() { takes<Kind<T>::floats || Kind<T>::i32, T>("Power"); }
template <typename T>
inline void powers(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& base, const AscendC::LocalTensor<T>& exponent,
                   uint64_t scratchBytes, uint32_t count) {
  powerTypes<T>();
  element2(POWER, dst, base, exponent, scratchBytes, count, [](T x, T y) { return power<T>(x, y); });
}
// One operand is a scalar, which `f` holds.
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
  if (isDry()) return;
  for (uint32_t i = 0; i < count; i++) dst.data()[i] = f(tensor.data()[i]);
}
template <typename T> inline uint64_t powerScratch() { return scratch(leastScratch<T>(POWER), "Power"); }
template <typename T> inline uint64_t powerScratch(const AscendC::LocalTensor<uint8_t>& buffer) {
  return scratch(buffer, leastScratch<T>(POWER), "Power");
}

}  // namespace simulator

namespace AscendC {

#define SIMULATOR_POWER template <typename T, bool isReuseSource = false, const auto& config = simulator::NO_CONFIG> inline void
SIMULATOR_POWER Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                 const LocalTensor<uint8_t>& sharedTmpBuffer, uint32_t count) {
  simulator::powers(dst, src0, src1, simulator::powerScratch<T>(sharedTmpBuffer), count);
}
SIMULATOR_POWER Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint32_t count) {
  simulator::powers(dst, src0, src1, simulator::powerScratch<T>(), count);
}
SIMULATOR_POWER Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                 const LocalTensor<uint8_t>& sharedTmpBuffer) {
  simulator::powers(dst, src0, src1, simulator::powerScratch<T>(sharedTmpBuffer), src0.GetSize());
}
SIMULATOR_POWER Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1) {
  simulator::powers(dst, src0, src1, simulator::powerScratch<T>(), src0.GetSize());
}
SIMULATOR_POWER Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const T& src1, const LocalTensor<uint8_t>& sharedTmpBuffer,
                 uint32_t count) {
  simulator::powersOf(dst, src0, simulator::powerScratch<T>(sharedTmpBuffer), count, [src1](T x) { return simulator::power<T>(x, src1); });
}
SIMULATOR_POWER Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const T& src1, uint32_t count) {
  simulator::powersOf(dst, src0, simulator::powerScratch<T>(), count, [src1](T x) { return simulator::power<T>(x, src1); });
}
SIMULATOR_POWER Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const T& src1, const LocalTensor<uint8_t>& sharedTmpBuffer) {
  Power<T, isReuseSource, config>(dst, src0, src1, sharedTmpBuffer, src0.GetSize());
}
SIMULATOR_POWER Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const T& src1) {
  Power<T, isReuseSource, config>(dst, src0, src1, src0.GetSize());
}
SIMULATOR_POWER Power(const LocalTensor<T>& dst, const T& src0, const LocalTensor<T>& src1, const LocalTensor<uint8_t>& sharedTmpBuffer,
                 uint32_t count) {
  simulator::powersOf(dst, src1, simulator::powerScratch<T>(sharedTmpBuffer), count, [src0](T x) { return simulator::power<T>(src0, x); });
}
SIMULATOR_POWER Power(const LocalTensor<T>& dst, const T& src0, const LocalTensor<T>& src1, uint32_t count) {
  simulator::powersOf(dst, src1, simulator::powerScratch<T>(), count, [src0](T x) { return simulator::power<T>(src0, x); });
}
SIMULATOR_POWER Power(const LocalTensor<T>& dst, const T& src0, const LocalTensor<T>& src1, const LocalTensor<uint8_t>& sharedTmpBuffer) {
  Power<T, isReuseSource, config>(dst, src0, src1, sharedTmpBuffer, src1.GetSize());
}
SIMULATOR_POWER Power(const LocalTensor<T>& dst, const T& src0, const LocalTensor<T>& src1) {
  Power<T, isReuseSource, config>(dst, src0, src1, src1.GetSize());
}
#undef SIMULATOR_POWER

// ---- limits
#define SIMULATOR_CLAMP(NAME, CHOOSE)                                                                                                      \
  template <typename T, bool isReuseSource = false>                                                                                   \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer, const T scalar, \
                   const uint32_t count) {                                                                                            \
    constexpr simulator::Recipe recipe{#NAME, 2, 2, 1, 1, false};                                                                          \
    simulator::takes<simulator::Kind<T>::floats, T>(#NAME);                                                                                     \
    uint64_t scratch = simulator::scratch(sharedTmpBuffer, simulator::leastScratch<T>(recipe), #NAME);                                          \
    float limit = float(scalar);                                                                                                      \
    simulator::element1(recipe, dst, src, scratch, count, [limit](float x) { return CHOOSE(x, limit); });                                  \
  }                                                                                                                                   \
  template <typename T, bool isReuseSource = false>                                                                                   \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T scalar, const uint32_t count) {                      \
    constexpr simulator::Recipe recipe{#NAME, 2, 2, 1, 1, false};                                                                          \
    simulator::takes<simulator::Kind<T>::floats, T>(#NAME);                                                                                     \
    float limit = float(scalar);                                                                                                      \
    simulator::element1(recipe, dst, src, simulator::scratch(simulator::leastScratch<T>(recipe), #NAME), count,                                      \
                   [limit](float x) { return CHOOSE(x, limit); });                                                                    \
  }
SIMULATOR_CLAMP(ClampMax, std::min)
SIMULATOR_CLAMP(ClampMin, std::max)
#undef SIMULATOR_CLAMP

// dst + scalar * src, through scratch memory where the types differ.
template <typename T, typename U, bool isReuseSource = false>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U scalarValue, const LocalTensor<uint8_t>& sharedTmpBuffer,
                 const uint32_t count) {
  constexpr simulator::Recipe recipe{"Axpy", 4, 3, 1, 4, false};
  simulator::takes<simulator::Kind<T>::floats && simulator::Kind<U>::floats, T>("Axpy");
  if (simulator::nothing(count, "Axpy")) return;
  simulator::recipeCost<T>(recipe, count, simulator::scratch(sharedTmpBuffer, simulator::leastScratch<T>(recipe), "Axpy"));
  simulator::source(simulator::V, src, uint64_t(count) * sizeof(U), "Axpy");
  simulator::source(simulator::V, dst, uint64_t(count) * sizeof(T), "Axpy");
  simulator::target(simulator::V, dst, uint64_t(count) * sizeof(T), "Axpy");
  if (simulator::isDry()) return;
  for (uint32_t i = 0; i < count; i++) dst.data()[i] = T(float(dst.data()[i]) + float(scalarValue) * float(src.data()[i]));
}

}  // namespace AscendC
