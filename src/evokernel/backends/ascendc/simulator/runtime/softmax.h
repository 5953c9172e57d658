// The library's softmax functions, on rows that start at multiples of 32 bytes. The sum and the maximum of a row each fill one block of 32 bytes.
#pragma once
#include <vector>

#include "../include/kernel_tiling/kernel_tiling.h"
#include "library.h"

namespace AscendC {

using tiling::LogSoftMaxTiling;
using tiling::SoftMaxTiling;

enum class SoftmaxMode { SOFTMAX_NORMAL = 0, SOFTMAX_OUTPUT_WITHOUT_BRC = 1 };
struct SoftmaxConfig {
  bool isCheckTiling = true;
  uint32_t oriSrcM = 0, oriSrcK = 0;
  SoftmaxMode mode = SoftmaxMode::SOFTMAX_NORMAL;
  constexpr SoftmaxConfig(bool check) : isCheckTiling(check) {}
  constexpr SoftmaxConfig(bool check, uint32_t m, uint32_t k) : isCheckTiling(check), oriSrcM(m), oriSrcK(k) {}
  constexpr SoftmaxConfig(bool check, uint32_t m, uint32_t k, SoftmaxMode given)
      : isCheckTiling(check), oriSrcM(m), oriSrcK(k), mode(given) {}
};
constexpr SoftmaxConfig SOFTMAX_DEFAULT_CFG{true, 0, 0, SoftmaxMode::SOFTMAX_NORMAL};
struct SoftMaxShapeInfo {
  uint32_t srcM{0}, srcK{0}, oriSrcM{0}, oriSrcK{0};
};

}  // namespace AscendC

namespace simulator {

struct Rows {                     // rows of a matrix in local memory
  uint32_t count, stride, width;  // number of rows; elements from row to row, of which the first `width` are used
  bool fractal = false;           // NZ: strips of 16 columns, each with all rows
  uint64_t at(uint32_t row, uint32_t column) const {
    return fractal ? uint64_t(column / 16) * count * 16 + row * 16 + column % 16 : uint64_t(row) * stride + column;
  }
  uint64_t elements() const { return uint64_t(count) * stride; }
};

template <typename T> inline void alignedRows(const Rows& rows, const char* what) {
  if (uint64_t(rows.stride) * sizeof(T) % BLOCK)
    reportViolation("E-LIB-ALIGN", "%s: a row of %u elements is %llu bytes, which is not a multiple of 32", what, rows.stride,
           (unsigned long long)(uint64_t(rows.stride) * sizeof(T)));
  if (rows.width > rows.stride) endRun("E-LIB-SHAPE", "%s: the original length %u is larger than the padded row length %u", what, rows.width, rows.stride);
  if (!rows.count || !rows.stride) endRun("E-LIB-SHAPE", "%s: invalid shape of %u rows of %u elements", what, rows.count, rows.stride);
}

// The shape argument, or the shape of the tensor, or the shape in the tiling.
template <typename T, class Tiling>
inline Rows rowsOf(const AscendC::LocalTensor<T>& src, const Tiling& tiling, const AscendC::SoftMaxShapeInfo& given, bool fractal,
                   const char* what) {
  Rows rows{given.srcM, given.srcK, given.oriSrcK ? given.oriSrcK : given.srcK, fractal};
  AscendC::ShapeInfo known = src.GetShapeInfo();
  if (!rows.count || !rows.stride) {
    if (known.shapeDim) {
      rows.stride = known.shape[known.shapeDim - 1];
      rows.width = known.originalShapeDim ? known.originalShape[known.originalShapeDim - 1] : rows.stride;
      rows.count = 1;
      for (int i = 0; i + 1 < known.shapeDim; i++) rows.count *= known.shape[i];
    } else {
      rows = {tiling.srcM, tiling.srcK, tiling.srcK, fractal};
    }
  }
  alignedRows<T>(rows, what);
  return rows;
}

// One number per row, in a separate block.
template <typename T> struct PerRow {
  const AscendC::LocalTensor<T>& tensor;
  uint32_t each;  // copies of the number
  PerRow(const AscendC::LocalTensor<T>& given, bool single = false) : tensor(given), each(single ? 1 : BLOCK / uint32_t(sizeof(T))) {}
  uint64_t bytes(const Rows& rows) const { return uint64_t(rows.count) * each * sizeof(T); }
  void reads(const Rows& rows, const char* what) const { source(V, tensor, bytes(rows), what); }
  void writes(const Rows& rows, const char* what) const { target(V, tensor, bytes(rows), what); }
  float get(uint32_t row) const { return float(tensor.data()[uint64_t(row) * each]); }
  void set(uint32_t row, float value) const {
    for (uint32_t i = 0; i < each; i++) tensor.data()[uint64_t(row) * each + i] = T(value);
  }
};

// The instructions for maximum, subtraction, exp, sum and division, with the broadcasts of one number to a row.
template <typename T> inline void softmaxCost(const Rows& rows, double cycles, int instructions) {
  vectorCost(rows.elements() * sizeof(float), cycles + 2 * (sizeof(T) == 2), instructions);
}

template <typename T> inline float rowMaximum(const T* from, const Rows& rows, uint32_t row) {
  float most = float(from[rows.at(row, 0)]);
  for (uint32_t i = 1; i < rows.width; i++) most = std::max(most, float(from[rows.at(row, i)]));
  return most;
}

// dst = exp(src - maximum), and its sum; the padding of a row becomes 0.
template <typename T>
inline float exponents(T* to, const T* from, const Rows& rows, uint32_t row, float maximum, std::vector<float>& kept) {
  kept.assign(rows.stride, 0.0f);
  float sum = 0;
  for (uint32_t i = 0; i < rows.width; i++) {
    kept[i] = std::exp(float(from[rows.at(row, i)]) - maximum);
    sum += kept[i];
  }
  for (uint32_t i = 0; i < rows.stride; i++) to[rows.at(row, i)] = T(kept[i]);
  return sum;
}
template <typename T> inline void scaled(T* to, const std::vector<float>& kept, const Rows& rows, uint32_t row, float divisor) {
  for (uint32_t i = 0; i < rows.width; i++) to[rows.at(row, i)] = T(kept[i] / divisor);
}

template <typename T>
inline Rows softmaxBegin(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, const Rows& rows, double cycles,
                         int instructions, const char* what) {
  takes<Kind<T>::floats, T>(what);
  softmaxCost<T>(rows, cycles, instructions);
  source(V, src, rows.elements() * sizeof(T), what);
  target(V, dst, rows.elements() * sizeof(T), what);
  apart(dst, rows.elements() * sizeof(T), src, rows.elements() * sizeof(T), true, what);
  return rows;
}

template <typename T, typename U>
inline void softmax(const AscendC::LocalTensor<T>& dst, const PerRow<U>* sums, const PerRow<U>* maxima, const AscendC::LocalTensor<T>& src,
                    const Rows& rows) {
  softmaxBegin(dst, src, rows, 11, 8, "SoftMax");
  if (sums) sums->writes(rows, "SoftMax");
  if (maxima) maxima->writes(rows, "SoftMax");
  if (isDry()) return;
  std::vector<float> kept;
  for (uint32_t row = 0; row < rows.count; row++) {
    float maximum = rowMaximum(src.data(), rows, row);
    float sum = exponents(dst.data(), src.data(), rows, row, maximum, kept);
    scaled(dst.data(), kept, rows, row, sum);
    if (sums) sums->set(row, sum);
    if (maxima) maxima->set(row, maximum);
  }
}

template <typename T, typename U>
inline void simpleSoftmax(const AscendC::LocalTensor<T>& dst, const PerRow<U>& sums, const PerRow<U>& maxima,
                          const AscendC::LocalTensor<T>& src, const Rows& rows) {
  softmaxBegin(dst, src, rows, 5, 4, "SimpleSoftMax");
  sums.reads(rows, "SimpleSoftMax");
  maxima.reads(rows, "SimpleSoftMax");
  if (isDry()) return;
  std::vector<float> kept;
  for (uint32_t row = 0; row < rows.count; row++) {
    exponents(dst.data(), src.data(), rows, row, maxima.get(row), kept);
    scaled(dst.data(), kept, rows, row, sums.get(row));
  }
}

// A softmax over columns in pieces. Flash divides by the sum, FlashV2 leaves the division for the end.
template <typename T, typename U> struct Flash {
  const AscendC::LocalTensor<T>& dst;
  PerRow<U> sums, maxima;
  const AscendC::LocalTensor<T>& src;
  PerRow<T> factors;
  PerRow<U> sumsBefore, maximaBefore;

  void operator()(const Rows& rows, bool isUpdate, bool divides, const char* what) const {
    softmaxBegin(dst, src, rows, divides ? 13 : 10, 10, what);
    if (isUpdate) {
      sumsBefore.reads(rows, what);
      maximaBefore.reads(rows, what);
      factors.writes(rows, what);
    }
    sums.writes(rows, what);
    maxima.writes(rows, what);
    if (isDry()) return;
    std::vector<float> kept;
    for (uint32_t row = 0; row < rows.count; row++) {
      float maximum = rowMaximum(src.data(), rows, row), before = isUpdate ? maximaBefore.get(row) : 0,
            sumBefore = isUpdate ? sumsBefore.get(row) : 0;
      if (isUpdate) maximum = std::max(maximum, before);
      float sum = exponents(dst.data(), src.data(), rows, row, maximum, kept);
      float factor = isUpdate ? std::exp(before - maximum) : 0;
      sum += factor * sumBefore;
      if (divides) scaled(dst.data(), kept, rows, row, sum);
      if (isUpdate) factors.set(row, divides ? factor * sumBefore / sum : factor);
      sums.set(row, sum);
      maxima.set(row, maximum);
    }
  }
};

// (grad - sum(grad * src)) * src, or only the sum.
template <typename T>
inline void softmaxGrad(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& grad, const AscendC::LocalTensor<T>& src,
                        const Rows& rows, bool isFront) {
  const char* what = "SoftmaxGrad";
  takes<Kind<T>::floats, T>(what);
  softmaxCost<T>(rows, isFront ? 4 : 7, 5);
  source(V, src, rows.elements() * sizeof(T), what);
  source(V, grad, rows.elements() * sizeof(T), what);
  PerRow<T> sums(dst);
  target(V, dst, isFront ? sums.bytes(rows) : rows.elements() * sizeof(T), what);
  if (isDry()) return;
  for (uint32_t row = 0; row < rows.count; row++) {
    float sum = 0;
    for (uint32_t i = 0; i < rows.width; i++) sum += float(grad.data()[rows.at(row, i)]) * float(src.data()[rows.at(row, i)]);
    if (isFront) sums.set(row, sum);
    for (uint32_t i = 0; !isFront && i < rows.width; i++) {
      uint64_t at = rows.at(row, i);
      dst.data()[at] = T((float(grad.data()[at]) - sum) * float(src.data()[at]));
    }
  }
}

// Scratch memory of one row in float, the minimum size.
inline uint64_t rowScratch(const Rows& rows) { return uint64_t(rows.stride) * sizeof(float); }

}  // namespace simulator

#include "softmax_forms.h"
