// The mask register: the lanes of masked overloads that do not set a mask themselves.
#pragma once
#include "lanes.h"

namespace simulator {

// One register for both modes: lane bits in normal mode, a number of elements in counter mode.
inline void setMask(uint64_t high, uint64_t low) {
  core->mask = {low, high};
  core->maskElements = low & 0xffffffff;
}
template <typename T> inline void setMaskLength(uint64_t length) {
  if (core->maskCounts) return setMask(0, length);
  uint64_t most = 256 / sizeof(T);
  if (length < 1 || length > most)
    reportViolation("E-MASK", "SetVectorMask: %llu lanes are outside 1..%llu for %s", (unsigned long long)length, (unsigned long long)most,
           typeName<T>());
  Mask mask = lanes(std::min(length, most));
  setMask(mask.high, mask.low);
}

}  // namespace simulator

namespace AscendC {

template <typename T, MaskMode mode = MaskMode::NORMAL> static inline void SetVectorMask(const uint64_t maskHigh, const uint64_t maskLow) {
  simulator::core->scalar(1);
  simulator::setMask(maskHigh, maskLow);
}
template <typename T, MaskMode mode = MaskMode::NORMAL> static inline void SetVectorMask(int32_t len) {
  simulator::core->scalar(1);
  if (mode == MaskMode::COUNTER) simulator::setMask(0, uint64_t(len));
  else simulator::setMaskLength<T>(uint64_t(len));
}
inline void ResetMask() {
  simulator::core->scalar(1);
  simulator::setMask(~0ull, ~0ull);
}
inline void SetMaskCount() {
  simulator::core->scalar(1);
  simulator::core->maskCounts = true;
}
inline void SetMaskNorm() {
  simulator::core->scalar(1);
  simulator::core->maskCounts = false;
}

// Helpers from CANN's headers that kernels use.
class AscendCUtils {
 public:
  template <typename T, bool isSetMask = true> static inline void SetMask(const uint64_t& maskHigh, const uint64_t& maskLow) {
    if (isSetMask) simulator::setMask(maskHigh, maskLow);
  }
  template <typename T, bool isSetMask = true> static inline void SetMask(int32_t len) {
    if (isSetMask) simulator::setMaskLength<T>(uint64_t(len));
  }
  static inline void ResetMask() { AscendC::ResetMask(); }
  static inline int32_t GetBitSize(int32_t byteSize) { return byteSize * ONE_BYTE_BIT_SIZE; }
  static inline int32_t GetC0Size() { return DEFAULT_C0_SIZE; }
  static inline int32_t GetC0Count(const int32_t dtypeSize) { return DEFAULT_C0_SIZE / dtypeSize; }
  static inline int32_t GetDefaultBlockNum() { return DEFAULT_BLK_NUM; }
};

}  // namespace AscendC
