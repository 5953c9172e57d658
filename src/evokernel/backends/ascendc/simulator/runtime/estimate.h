// Reciprocal and Rsqrt are table lookups in the hardware: eight bits of the operand select one of 256 results with nine significant bits.
// Huawei's reference excludes both where float needs 1e-4 or half needs 1e-3, and recommends Div and Sqrt. The tables below, of the middle of
// each interval, reproduce all ten results of the examples in that reference, and all 72 values that sigmoid and swish kernels in float printed
// on a 910B and that were published with their reference values. Other results, subnormal numbers among them, are not documented.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace simulator {

constexpr std::array<uint16_t, 512> reciprocals() {  // of [256, 512) / 512, in units of 1 / 256
  std::array<uint16_t, 512> table{};
  for (uint32_t a = 256; a < 512; a++) table[a] = uint16_t(((1u << 19) / (2 * a + 1) + 1) / 2);
  return table;
}
constexpr std::array<uint16_t, 512> reciprocalRoots() {  // of [128, 512) / 512, in units of 1 / 256
  std::array<uint16_t, 512> table{};
  uint64_t root = 1024;
  for (uint32_t a = 128; a < 512; a++) {
    uint64_t middle = a < 256 ? 2 * a + 1 : 2 * (a | 1);  // the upper half selects by one bit less
    while (middle * root * root >= 1ull << 28) root--;
    table[a] = uint16_t((root + 1) / 2);
  }
  return table;
}
inline constexpr std::array<uint16_t, 512> RECIPROCALS = reciprocals(), RECIPROCAL_ROOTS = reciprocalRoots();

inline float reciprocalEstimate(float x) {
  if (x != x) return x;
  if (x == 0.0f) return std::copysign(std::numeric_limits<float>::infinity(), x);
  if (std::isinf(x)) return std::copysign(0.0f, x);
  int exponent;
  float fraction = std::frexp(std::fabs(x), &exponent);
  return std::copysign(std::ldexp(float(RECIPROCALS[size_t(fraction * 512.0f)]), -8 - exponent), x);
}
inline float reciprocalRootEstimate(float x) {
  if (x != x || x < 0.0f) return std::numeric_limits<float>::quiet_NaN();
  if (x == 0.0f) return std::copysign(std::numeric_limits<float>::infinity(), x);
  if (std::isinf(x)) return 0.0f;
  int exponent;
  float fraction = std::frexp(x, &exponent);
  if (exponent % 2) fraction /= 2, exponent++;
  return std::ldexp(float(RECIPROCAL_ROOTS[size_t(fraction * 512.0f)]), -8 - exponent / 2);
}

}  // namespace simulator
