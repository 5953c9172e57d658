// The scale of a quantised number.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace simulator {

// The scale of one element, as the hardware packs it into 64 bits.
struct Scale {
  float scale;
  int16_t offset;
  bool isSigned;
  uint64_t packed() const {
    uint32_t bits;
    memcpy(&bits, &scale, 4);
    return uint64_t(bits) | (uint64_t(offset & 0x1ff) << 37) | (uint64_t(isSigned) << 46);
  }
  static Scale from(uint64_t packed) {
    uint32_t bits = uint32_t(packed);
    Scale made;
    memcpy(&made.scale, &bits, 4);
    made.offset = int16_t((packed >> 37) & 0x1ff);
    if (made.offset & 0x100) made.offset = int16_t(made.offset - 0x200);
    made.isSigned = (packed >> 46) & 1;
    return made;
  }
  // The output of the cube takes the upper 19 bits of the scale: sign, exponent and 10 bits of the fraction.
  static Scale ofOutput(uint64_t packed) { return from(packed & ~uint64_t(0x1fff)); }
  // A number that leaves the cube as an integer of 8 bits, or as half.
  template <typename D, typename U> D convert(U number) const {
    float value = float(number) * scale;
    if constexpr (sizeof(D) == 1) {
      float low = std::is_signed<D>::value ? -128.0f : 0.0f, high = std::is_signed<D>::value ? 127.0f : 255.0f;
      return D(std::min(std::max(std::nearbyint(value) + float(offset), low), high));
    } else {
      return D(value);
    }
  }
};

}  // namespace simulator
