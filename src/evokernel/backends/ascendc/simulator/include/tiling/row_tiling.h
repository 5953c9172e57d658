// Tiling of the library functions on rows: softmax and the normalisations. Their scratch memory is a few float32 tensors per
// row that is processed at once; the minimum holds one row.
#pragma once
#include "kernel_tiling/kernel_tiling.h"
#include "tiling/scratch_sizes.h"

namespace AscendC {

namespace simulatorRows {

struct Rows {
  uint32_t count, width;
};

// The product of all sizes but the last is the number of rows.
inline Rows of(const TensorShape& shape) {
  size_t rank = shape.GetDimNum();
  auto width = static_cast<uint32_t>(rank ? shape.GetDim(rank - 1) : 1);
  return {width ? static_cast<uint32_t>(shape.GetShapeSize()) / width : 0, width};
}

inline uint32_t scratch(uint32_t rows, uint32_t width) {
  constexpr uint32_t BLOCK = 32, TENSORS = 2;
  uint32_t row = (width * sizeof(float) + BLOCK - 1) / BLOCK * BLOCK + 4 * BLOCK;
  return rows * row * TENSORS;
}

// The number of rows that fit into the scratch memory, at least one.
inline uint32_t fitting(const Rows& rows, uint32_t bytes) {
  uint32_t fit = bytes / scratch(1, rows.width);
  return fit < 1 ? 1 : fit < rows.count ? fit : rows.count;
}

template <class T>
void softmax(const TensorShape& shape, uint32_t typeSize, uint32_t bytes, T& tiling) {
  Rows rows = of(shape);
  uint32_t perBlock = 32 / typeSize, once = fitting(rows, bytes);
  tiling.srcM = rows.count;
  tiling.srcK = rows.width;
  tiling.srcSize = rows.count * rows.width;
  tiling.outMaxM = rows.count;
  tiling.outMaxK = perBlock;
  tiling.outMaxSize = rows.count * perBlock;
  tiling.splitM = once;
  tiling.splitK = rows.width;
  tiling.splitSize = once * rows.width;
  tiling.reduceM = once;
  tiling.reduceK = perBlock;
  tiling.reduceSize = once * perBlock;
  tiling.rangeM = once ? rows.count / once : 0;
  tiling.tailM = once ? rows.count % once : 0;
  tiling.tailSplitSize = tiling.tailM * rows.width;
  tiling.tailReduceSize = tiling.tailM * perBlock;
}

}  // namespace simulatorRows

#define SIMULATOR_SOFTMAX(name, structure)                                                                                                  \
  template <class... Flags>                                                                                                            \
  uint32_t Get##name##MaxTmpSize(const TensorShape& srcShape, const uint32_t, const Flags...) {                                        \
    simulatorRows::Rows rows = simulatorRows::of(srcShape);                                                                                      \
    return simulatorRows::scratch(rows.count, rows.width);                                                                                  \
  }                                                                                                                                    \
  template <class... Flags>                                                                                                            \
  uint32_t Get##name##MinTmpSize(const TensorShape& srcShape, const uint32_t, const Flags...) {                                        \
    return simulatorRows::scratch(1, simulatorRows::of(srcShape).width);                                                                         \
  }                                                                                                                                    \
  template <class... Flags>                                                                                                            \
  void name##TilingFunc(const TensorShape& srcShape, const uint32_t typeSize, const uint32_t bytes, optiling::structure& tiling,       \
                        const Flags...) {                                                                                              \
    simulatorRows::softmax(srcShape, typeSize, bytes, tiling);                                                                              \
  }
SIMULATOR_SOFTMAX(SoftMax, SoftMaxTiling)
SIMULATOR_SOFTMAX(SoftMaxFlash, SoftMaxTiling)
SIMULATOR_SOFTMAX(SoftMaxGrad, SoftMaxTiling)
SIMULATOR_SOFTMAX(LogSoftMax, LogSoftMaxTiling)
#undef SIMULATOR_SOFTMAX

inline uint32_t GetSoftMaxFlashV2MaxTmpSize(const TensorShape& srcShape, const uint32_t, const uint32_t, const bool, const bool = false,
                                            const bool = false) {
  simulatorRows::Rows rows = simulatorRows::of(srcShape);
  return simulatorRows::scratch(rows.count, rows.width);
}
inline uint32_t GetSoftMaxFlashV2MinTmpSize(const TensorShape& srcShape, const uint32_t, const uint32_t, const bool, const bool = false,
                                            const bool = false) {
  return simulatorRows::scratch(1, simulatorRows::of(srcShape).width);
}
inline void SoftMaxFlashV2TilingFunc(const TensorShape& srcShape, const uint32_t typeSize, const uint32_t, const uint32_t bytes,
                                     optiling::SoftMaxTiling& tiling, const bool, const bool = false, const bool = false) {
  simulatorRows::softmax(srcShape, typeSize, bytes, tiling);
}

// The shape is [B, S, H, unpadded H] for the LayerNorm that returns variances, and [A, R] for the one that returns reciprocal deviations.
namespace simulatorRows {
inline Rows normed(const TensorShape& shape) {
  if (shape.GetDimNum() != 4) return of(shape);
  return {static_cast<uint32_t>(shape.GetDim(0) * shape.GetDim(1)), static_cast<uint32_t>(shape.GetDim(2))};
}
}  // namespace simulatorRows

inline bool GetLayerNormMaxMinTmpSize(const TensorShape& srcShape, const uint32_t, const bool, uint32_t& maxValue, uint32_t& minValue) {
  simulatorRows::Rows rows = simulatorRows::normed(srcShape);
  maxValue = 2 * simulatorRows::scratch(rows.count, rows.width);
  minValue = 2 * simulatorRows::scratch(1, rows.width);
  return true;
}
inline bool GetLayerNormMaxMinTmpSize(const TensorShape& srcShape, const uint32_t typeSize, const bool isReuseSource, const bool, const bool,
                                      uint32_t& maxValue, uint32_t& minValue) {
  return GetLayerNormMaxMinTmpSize(srcShape, typeSize, isReuseSource, maxValue, minValue);
}
inline void GetLayerNormNDTilingInfo(const TensorShape& srcShape, const uint32_t bytes, const uint32_t, const bool,
                                     optiling::LayerNormTiling& tiling) {
  simulatorRows::Rows rows = simulatorRows::normed(srcShape);
  tiling.bLength = static_cast<uint32_t>(srcShape.GetDim(0));
  tiling.sLength = tiling.bLength ? rows.count / tiling.bLength : 0;
  tiling.hLength = rows.width;
  tiling.originalHLength = simulatorRows::of(srcShape).width;
  tiling.inputXSize = rows.count * rows.width;
  tiling.meanVarSize = rows.count;
  tiling.tmpBufSize = bytes / sizeof(float);
  tiling.bsCurLength = simulatorRows::fitting(rows, bytes / 2);
  tiling.bshCurLength = tiling.bsCurLength * rows.width;
  tiling.loopRound = tiling.bsCurLength ? rows.count / tiling.bsCurLength : 0;
  tiling.lastDimValueBack = tiling.originalHLength ? 1.0f / float(tiling.originalHLength) : 0.0f;
}
inline void GetLayerNormNDTillingInfo(const TensorShape& srcShape, const uint32_t bytes, const uint32_t typeSize, const bool isReuseSource,
                                      optiling::LayerNormTiling& tiling) {
  GetLayerNormNDTilingInfo(srcShape, bytes, typeSize, isReuseSource, tiling);
}
inline void GetLayerNormNDTilingInfo(const TensorShape& srcShape, const uint32_t bytes, const uint32_t typeSize, const bool, const bool,
                                     optiling::LayerNormSeparateTiling& tiling) {
  simulatorRows::Rows rows = simulatorRows::of(srcShape);
  uint32_t perBlock = 32 / typeSize, padded = (rows.width + perBlock - 1) / perBlock * perBlock;
  tiling.aLength = tiling.meanVarSize = rows.count;
  tiling.rLength = rows.width;
  tiling.inputXSize = rows.count * padded;
  tiling.tmpBufSize = bytes / sizeof(float);
}
// The shape of the gradients is [B, S, H, unpadded H].
namespace simulatorRows {
template <class T> void gradient(const TensorShape& shape, T& tiling) {
  tiling.bLength = static_cast<uint32_t>(shape.GetDim(0));
  tiling.sLength = static_cast<uint32_t>(shape.GetDim(1));
  tiling.hLength = static_cast<uint32_t>(shape.GetDim(2));
  tiling.originalHLength = shape.GetDimNum() > 3 ? static_cast<uint32_t>(shape.GetDim(3)) : tiling.hLength;
}
inline void gradientScratch(const TensorShape& shape, uint32_t tensors, uint32_t& most, uint32_t& least) {
  auto rows = static_cast<uint32_t>(shape.GetDim(0) * shape.GetDim(1)), width = static_cast<uint32_t>(shape.GetDim(2));
  most = tensors * scratch(rows, width);
  least = tensors * scratch(1, width);
}
}  // namespace simulatorRows

inline void GetLayerNormGradMaxMinTmpSize(const TensorShape& srcShape, const uint32_t, const bool, uint32_t& maxValue, uint32_t& minValue) {
  simulatorRows::gradientScratch(srcShape, 4, maxValue, minValue);
}
inline void GetLayerNormGradNDTilingInfo(const TensorShape& srcShape, const uint32_t elements, const uint32_t, const bool,
                                         optiling::LayerNormGradTiling& tiling) {
  simulatorRows::gradient(srcShape, tiling);
  tiling.stackBufferSize = elements;
  tiling.lastDimValueBack = tiling.originalHLength ? 1.0f / float(tiling.originalHLength) : 0.0f;
  tiling.lastDimValueBackMulTwo = 2 * tiling.lastDimValueBack;
}
inline void GetLayerNormGradBetaMaxMinTmpSize(const TensorShape& srcShape, const uint32_t, const bool, uint32_t& maxValue, uint32_t& minValue) {
  simulatorRows::gradientScratch(srcShape, 2, maxValue, minValue);
}
inline void GetLayerNormGradBetaNDTilingInfo(const TensorShape& srcShape, const uint32_t elements, const uint32_t, const bool,
                                             optiling::LayerNormGradBetaTiling& tiling) {
  simulatorRows::gradient(srcShape, tiling);
  tiling.stackBufferSize = elements;
}
inline bool GetRmsNormMaxMinTmpSize(const TensorShape& srcShape, const uint32_t, uint32_t& maxValue, uint32_t& minValue, const bool = false) {
  simulatorRows::Rows rows = simulatorRows::of(srcShape);
  maxValue = simulatorRows::scratch(rows.count, rows.width);
  minValue = simulatorRows::scratch(1, rows.width);
  return true;
}
inline bool GetRmsNormTilingInfo(const TensorShape& srcShape, const TensorShape& originSrcShape, const uint32_t bytes, const uint32_t,
                                 optiling::RmsNormTiling& tiling, const bool = false) {
  simulatorRows::Rows rows = simulatorRows::of(srcShape);
  tiling.bLength = static_cast<uint32_t>(srcShape.GetDim(0));
  tiling.sLength = tiling.bLength ? rows.count / tiling.bLength : 0;
  tiling.hLength = rows.width;
  tiling.originalHLength = simulatorRows::of(originSrcShape).width;
  tiling.reciprocalOfHLength = tiling.originalHLength ? 1.0f / tiling.originalHLength : 0.0f;
  tiling.mainBsLength = simulatorRows::fitting(rows, bytes);
  tiling.mainBshLength = tiling.mainBsLength * rows.width;
  tiling.loopRound = tiling.mainBsLength ? rows.count / tiling.mainBsLength : 0;
  tiling.tailBsLength = tiling.mainBsLength ? rows.count % tiling.mainBsLength : 0;
  tiling.tailBshLength = tiling.tailBsLength * rows.width;
  tiling.inputTailPos = tiling.loopRound * tiling.mainBshLength;
  return true;
}
inline void GetGroupNormMaxMinTmpSize(const TensorShape& srcShape, const uint32_t, const bool, const uint32_t, uint32_t& maxValue,
                                      uint32_t& minValue) {
  maxValue = simulatorScratch::most(srcShape, sizeof(float), 3);
  minValue = maxValue;
}
inline bool GetBatchNormMaxMinTmpSize(const TensorShape& srcShape, const TensorShape&, const uint32_t, const bool, uint32_t& maxValue,
                                      uint32_t& minValue, const bool = false) {
  maxValue = simulatorScratch::most(srcShape, sizeof(float), 3);
  minValue = maxValue;
  return true;
}

}  // namespace AscendC
