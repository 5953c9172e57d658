// 16-bit floating-point types. Compilers differ in their support, so the simulator has its own; arithmetic is in float, rounded on store.
#pragma once
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace simulator {

// Round to nearest, ties to even.
constexpr uint16_t halfBits(float value) {
  uint32_t u = __builtin_bit_cast(uint32_t, value);
  uint32_t sign = (u >> 16) & 0x8000, magnitude = u & 0x7fffffff;
  if (magnitude > 0x7f800000) return uint16_t(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return uint16_t(sign | 0x7c00);  // rounds to infinity
  if (magnitude >= 0x38800000) {
    uint32_t rounded = magnitude - 0x38000000;
    rounded += 0xfff + ((rounded >> 13) & 1);
    return uint16_t(sign | (rounded >> 13));
  }
  if (magnitude < 0x33000000) return uint16_t(sign);  // at most half of the smallest subnormal number
  uint32_t shift = 126 - (magnitude >> 23), mantissa = (magnitude & 0x7fffff) | 0x800000;
  uint32_t kept = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), middle = 1u << (shift - 1);
  return uint16_t(sign | (kept + (rest > middle || (rest == middle && (kept & 1)))));
}
constexpr float halfValue(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = (bits >> 10) & 31, mantissa = bits & 0x3ff;
  if (exponent == 31) return __builtin_bit_cast(float, sign | 0x7f800000 | (mantissa << 13));
  if (exponent) return __builtin_bit_cast(float, sign | ((exponent + 112) << 23) | (mantissa << 13));
  float small = float(mantissa) * 5.9604644775390625e-8f;  // 2^-24
  return sign ? -small : small;
}
constexpr uint16_t brainBits(float value) {
  uint32_t u = __builtin_bit_cast(uint32_t, value);
  if ((u & 0x7fffffff) > 0x7f800000) return uint16_t((u >> 16) | 0x40);
  return uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

template <class Bits> struct Short {
  uint16_t bits;
  Short() = default;
  template <typename N, class = std::enable_if_t<std::is_arithmetic<N>::value>> constexpr Short(N number) : bits(Bits::from(float(number))) {}
  template <class Other, class = std::enable_if_t<!std::is_same<Other, Bits>::value>> constexpr explicit Short(const Short<Other>& other)
      : bits(Bits::from(float(other))) {}
  constexpr operator float() const { return Bits::to(bits); }
  Short& operator+=(float other) { return *this = Short(float(*this) + other); }
  Short& operator-=(float other) { return *this = Short(float(*this) - other); }
  Short& operator*=(float other) { return *this = Short(float(*this) * other); }
  Short& operator/=(float other) { return *this = Short(float(*this) / other); }
};

struct HalfBits {
#ifdef __ARM_FP16_FORMAT_IEEE
  static constexpr uint16_t from(float value) {
    if (__builtin_is_constant_evaluated()) return halfBits(value);
    __fp16 stored = __fp16(value);
    uint16_t bits = 0;
    __builtin_memcpy(&bits, &stored, 2);
    return bits;
  }
  static constexpr float to(uint16_t bits) {
    if (__builtin_is_constant_evaluated()) return halfValue(bits);
    __fp16 stored = 0;
    __builtin_memcpy(&stored, &bits, 2);
    return stored;
  }
#else
  static constexpr uint16_t from(float value) { return halfBits(value); }
  static constexpr float to(uint16_t bits) { return halfValue(bits); }
#endif
};
struct BrainBits {
  static constexpr uint16_t from(float value) { return brainBits(value); }
  static constexpr float to(uint16_t bits) { return __builtin_bit_cast(float, uint32_t(bits) << 16); }
};

}  // namespace simulator

using half = simulator::Short<simulator::HalfBits>;
using bfloat16_t = simulator::Short<simulator::BrainBits>;

namespace std {
template <class Bits> class numeric_limits<simulator::Short<Bits>> {
 public:
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, has_infinity = true;
};
}  // namespace std
