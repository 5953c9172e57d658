// Scratch memory of the library functions: Get...MaxMinTmpSize. The unit is one tensor of the source's size, by
// element type, with at least one repeat of 256 bytes each. If no figure is published, the table uses a generous one.
#pragma once
#include <algorithm>
#include <cstdint>

#include "../../runtime/choices.h"
#include "graph/tensor.h"
#include "tiling/platform/platform_ascendc.h"

namespace AscendC {

using TensorShape = ge::Shape;
using TensorDataType = ge::DataType;

namespace simulatorScratch {

constexpr uint32_t REPEAT = 256;

inline uint32_t most(const TensorShape& shape, uint32_t typeSize, uint32_t tensors) {
  auto bytes = static_cast<uint32_t>(shape.GetShapeSize()) * typeSize;
  return tensors * std::max(bytes, REPEAT);
}

}  // namespace simulatorScratch

// name; scratch tensors for float, for half
#define SIMULATOR_SCRATCH(name, wide, narrow)                                                                                                \
  inline void Get##name##TmpBufferFactorSize(const uint32_t typeSize, uint32_t& maxLiveNodeCount, uint32_t& extraBuf) {                 \
    maxLiveNodeCount = typeSize == sizeof(float) ? wide : narrow;                                                                       \
    extraBuf = 0;                                                                                                                       \
  }                                                                                                                                     \
  inline bool Get##name##MaxMinTmpSize(const TensorShape& srcShape, const uint32_t typeSize, const bool, uint32_t& maxValue,            \
                                       uint32_t& minValue) {                                                                            \
    uint32_t tensors = typeSize == sizeof(float) ? wide : narrow;                                                                       \
    minValue = tensors * simulatorScratch::REPEAT;                                                                                           \
    maxValue = simulatorScratch::most(srcShape, typeSize, tensors);                                                                          \
    return true;                                                                                                                        \
  }                                                                                                                                     \
  inline bool Get##name##MaxMinTmpSize(const platform_ascendc::PlatformAscendC&, const TensorShape& srcShape, const uint32_t typeSize,  \
                                       const bool reuse, uint32_t& maxValue, uint32_t& minValue) {                                      \
    return Get##name##MaxMinTmpSize(srcShape, typeSize, reuse, maxValue, minValue);                                                     \
  }

SIMULATOR_SCRATCH(Acos, 2, 6)
SIMULATOR_SCRATCH(Acosh, 1, 2)
SIMULATOR_SCRATCH(Asin, 2, 6)
SIMULATOR_SCRATCH(Asinh, 3, 3)
SIMULATOR_SCRATCH(Atan, 5, 12)
SIMULATOR_SCRATCH(Atanh, 1, 4)
SIMULATOR_SCRATCH(Axpy, 1, 4)
SIMULATOR_SCRATCH(Ceil, 1, 2)
SIMULATOR_SCRATCH(Clamp, 1, 1)
SIMULATOR_SCRATCH(Cos, 4, 8)
SIMULATOR_SCRATCH(Cosh, 2, 6)
SIMULATOR_SCRATCH(Digamma, 7, 16)
SIMULATOR_SCRATCH(DropOut, 2, 2)
SIMULATOR_SCRATCH(Erf, 3, 8)
SIMULATOR_SCRATCH(Erfc, 7, 16)
SIMULATOR_SCRATCH(Exp, 3, 8)
SIMULATOR_SCRATCH(Floor, 1, 2)
SIMULATOR_SCRATCH(Fmod, 1, 6)
SIMULATOR_SCRATCH(Frac, 1, 4)
SIMULATOR_SCRATCH(GeGLU, 3, 4)
SIMULATOR_SCRATCH(IsInf, 2, 2)
SIMULATOR_SCRATCH(IsNan, 2, 2)
SIMULATOR_SCRATCH(Lgamma, 8, 13)
SIMULATOR_SCRATCH(Log, 1, 1)
SIMULATOR_SCRATCH(Log10, 1, 1)
SIMULATOR_SCRATCH(Log2, 1, 2)
SIMULATOR_SCRATCH(LogicalAnd, 2, 2)
SIMULATOR_SCRATCH(LogicalNot, 2, 2)
SIMULATOR_SCRATCH(LogicalOr, 2, 2)
SIMULATOR_SCRATCH(ReGlu, 2, 6)
SIMULATOR_SCRATCH(ReduceXorSum, 2, 2)
SIMULATOR_SCRATCH(Round, 1, 1)
SIMULATOR_SCRATCH(Sigmoid, 1, 1)
SIMULATOR_SCRATCH(Sign, 3, 3)
SIMULATOR_SCRATCH(Sin, 4, 8)
SIMULATOR_SCRATCH(Sinh, 1, 4)
SIMULATOR_SCRATCH(Tan, 4, 10)
SIMULATOR_SCRATCH(Tanh, 1, 4)
SIMULATOR_SCRATCH(Trunc, 1, 2)
SIMULATOR_SCRATCH(Xor, 1, 1)
SIMULATOR_SCRATCH(WelfordFinalize, 3, 3)
#undef SIMULATOR_SCRATCH

inline void GetSiluTmpSize(const TensorShape&, const uint32_t, const bool, uint32_t& maxValue, uint32_t& minValue) { maxValue = minValue = 0; }
inline void GetSwishTmpSize(const TensorShape&, const uint32_t, const bool, uint32_t& maxValue, uint32_t& minValue) { maxValue = minValue = 0; }

inline uint32_t GetGeluMinTmpSize(const TensorShape&, const uint32_t) { return 3 * simulatorScratch::REPEAT; }
inline uint32_t GetGeluMaxTmpSize(const TensorShape& srcShape, const uint32_t) { return simulatorScratch::most(srcShape, sizeof(float), 3); }
inline void GetGeluMaxMinTmpSize(const TensorShape& srcShape, const uint32_t typeSize, uint32_t& maxValue, uint32_t& minValue) {
  maxValue = GetGeluMaxTmpSize(srcShape, typeSize);
  minValue = GetGeluMinTmpSize(srcShape, typeSize);
}
inline void GetSwiGLUMaxMinTmpSize(const TensorShape& srcShape, const uint32_t typeSize, uint32_t& maxValue, uint32_t& minValue, const bool) {
  minValue = 3 * simulatorScratch::REPEAT;
  maxValue = simulatorScratch::most(srcShape, typeSize, 3);
}
inline void GetPowerMaxMinTmpSize(const TensorShape& base, const TensorShape& exponent, const bool, const uint32_t typeSize, const bool,
                                  uint32_t& maxValue, uint32_t& minValue) {
  uint32_t tensors = typeSize == sizeof(float) ? 5 : 14;
  const TensorShape& larger = base.GetShapeSize() > exponent.GetShapeSize() ? base : exponent;
  minValue = tensors * simulatorScratch::REPEAT;
  maxValue = simulatorScratch::most(larger, typeSize, tensors);
}
inline void GetCumSumMaxMinTmpSize(const TensorShape& srcShape, const uint32_t typeSize, const bool, const bool, uint32_t& maxValue,
                                   uint32_t& minValue) {
  minValue = simulatorScratch::most(srcShape, typeSize, 1);
  maxValue = simulatorScratch::most(srcShape, sizeof(float), 2);
}
inline void GetBroadCastMaxMinTmpSize(const platform_ascendc::PlatformAscendC&, const TensorShape&, const TensorShape& dstShape,
                                      uint32_t typeSize, const bool, uint32_t& maxValue, uint32_t& minValue) {
  minValue = simulatorScratch::REPEAT;
  maxValue = simulatorScratch::most(dstShape, typeSize, 2);
}
inline void GetMeanMaxMinTmpSize(const uint32_t count, const uint32_t, const uint32_t accTypeSize, const bool, uint32_t& maxSize,
                                 uint32_t& minSize) {
  maxSize = minSize = std::max(simulatorScratch::REPEAT, (count * accTypeSize + 31) / 32 * 32);
}
inline void GetSumMaxMinTmpSize(const uint32_t count, const uint32_t typeSize, const bool, uint32_t& maxSize, uint32_t& minSize) {
  maxSize = minSize = std::max(simulatorScratch::REPEAT, (count * typeSize + 31) / 32 * 32);
}

#define SIMULATOR_REDUCTION(name)                                                                                                        \
  inline void Get##name##MaxMinTmpSize(const TensorShape& srcShape, const TensorDataType dataType, ReducePattern, bool, bool,       \
                                       uint32_t& maxValue, uint32_t& minValue) {                                                    \
    auto typeSize = static_cast<uint32_t>(ge::GetSizeByDataType(dataType));                                                         \
    maxValue = minValue = simulatorScratch::most(srcShape, typeSize, 1);                                                                 \
  }
SIMULATOR_REDUCTION(ReduceSum)
SIMULATOR_REDUCTION(ReduceMean)
SIMULATOR_REDUCTION(ReduceMax)
SIMULATOR_REDUCTION(ReduceMin)
SIMULATOR_REDUCTION(ReduceProd)
SIMULATOR_REDUCTION(ReduceAny)
SIMULATOR_REDUCTION(ReduceAll)
#undef SIMULATOR_REDUCTION

inline uint32_t GetConcatTmpSize(const platform_ascendc::PlatformAscendC&, const uint32_t count, const uint32_t) {
  return count * 8;
}
inline uint32_t GetSortTmpSize(const platform_ascendc::PlatformAscendC&, const uint32_t count, const uint32_t) { return count * 8; }
inline void GetAscendQuantMaxMinTmpSize(const TensorShape& srcShape, const uint32_t, uint32_t& maxValue, uint32_t& minValue) {
  minValue = 2 * simulatorScratch::REPEAT;
  maxValue = simulatorScratch::most(srcShape, sizeof(float), 2);
}
inline void GetAscendDequantMaxMinTmpSize(const TensorShape& srcShape, const uint32_t, uint32_t& maxValue, uint32_t& minValue) {
  minValue = 2 * simulatorScratch::REPEAT;
  maxValue = simulatorScratch::most(srcShape, sizeof(float), 3);
}

}  // namespace AscendC
