// Activation functions of the library. Where CANN approximates (the GELUs), this uses the same formula, otherwise the exact function.
#pragma once
#include "library.h"

namespace simulator {

inline float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

inline float gelu(float x) {
  float y = 1.5957691216057308f * (x + 0.044715f * x * x * x);
  return x / (1.0f + std::exp(-y));
}
inline float fasterGelu(float x) { return x / (1.0f + std::exp(-1.702f * x)); }
inline float fasterGelu2(float x) {  // approximates the error function by a parabola
  float from = std::min(std::fabs(x * 0.7071f), 1.769f) - 1.769f;
  float half = -0.1444f * from * from + 0.5f;
  float shifted = x + 1e-12f, sign = shifted / std::fabs(shifted);
  return x * (half * sign + 0.5f);
}
inline float gegluGate(float x) { return x / (1.0f + std::exp(-0.0713548162726f * x * (x * x + 22.363860002236f))); }

// x / (1 + exp(-beta x)), in the order of the library: it writes the denominator to the destination first.
template <typename T>
inline void swish(const Recipe& recipe, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, float beta,
                  uint32_t count) {
  takes<Kind<T>::floats, T>(recipe.name);
  if (nothing(count, recipe.name)) return;
  uint64_t bytes = uint64_t(count) * sizeof(T);
  recipeCost<T>(recipe, count, 0);
  Doubt doubt;
  doubt.source(src, count, recipe.name);
  doubt.target(dst, count, recipe.name);
  apart(dst, bytes, src, bytes, false, recipe.name);
  if (isDry()) return;
  T* to = dst.data();
  const T* from = src.data();
  for (uint32_t i = 0; i < count; i++) to[i] = T(1.0f + std::exp(-beta * float(from[i])));
  for (uint32_t i = 0; i < count; i++) to[i] = T(float(from[i]) / float(to[i]));
}

}  // namespace simulator

namespace AscendC {

SIMULATOR_LIBRARY(Tanh, floats, 18, 8, 1, 4, false, std::tanh(x))
SIMULATOR_LIBRARY(Sigmoid, floats, 12, 5, 1, 1, false, simulator::sigmoid(x))

#define SIMULATOR_GELU(NAME, CYCLES, INSTRUCTIONS, TENSORS, FORMULA)                                                              \
  template <typename T, bool highPrecision = false, bool highPerformance = false>                                            \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,        \
                   const uint32_t dataSize) {                                                                                \
    constexpr simulator::Recipe recipe{#NAME, CYCLES, INSTRUCTIONS, TENSORS, highPrecision ? 2 * (TENSORS + 1) : TENSORS, false}; \
    simulator::takes<simulator::Kind<T>::floats, T>(#NAME);                                                                            \
    uint64_t scratch = simulator::scratch(sharedTmpBuffer, simulator::leastScratch<T>(recipe), #NAME);                                 \
    simulator::element1(recipe, dst, src, scratch, dataSize, FORMULA);                                                            \
  }                                                                                                                          \
  template <typename T, bool highPrecision = false, bool highPerformance = false>                                            \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dataSize) {                          \
    constexpr simulator::Recipe recipe{#NAME, CYCLES, INSTRUCTIONS, TENSORS, highPrecision ? 2 * (TENSORS + 1) : TENSORS, false}; \
    simulator::takes<simulator::Kind<T>::floats, T>(#NAME);                                                                            \
    simulator::element1(recipe, dst, src, simulator::scratch(simulator::leastScratch<T>(recipe), #NAME), dataSize, FORMULA);                \
  }
SIMULATOR_GELU(Gelu, 20, 13, 2, simulator::gelu)
SIMULATOR_GELU(FasterGelu, 9, 4, 1, simulator::fasterGelu)
SIMULATOR_GELU(FasterGeluV2, 14, 13, 3, simulator::fasterGelu2)
#undef SIMULATOR_GELU

template <typename T, bool isReuseSource = false>
inline void Silu(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t dataSize) {
  simulator::swish({"Silu", 12, 4, 0, 0, true}, dst, src, 1.0f, dataSize);
}
template <typename T, bool isReuseSource = false>
inline void Swish(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t dataSize, const T scalarValue) {
  simulator::swish({"Swish", 12, 4, 0, 0, true}, dst, src, float(scalarValue), dataSize);
}

SIMULATOR_LIBRARY_TWO(GeGLU, floats, 14, 8, 0, 4, true, float(x) * simulator::gegluGate(float(y)))
SIMULATOR_LIBRARY_TWO(ReGlu, floats, 2, 2, 0, 6, true, float(x) * std::max(float(y), 0.0f))

// src0 times Swish of src1.
template <typename T, bool isReuseSource = false>
inline void SwiGLU(LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& scalarValue,
                   const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t count) {
  constexpr simulator::Recipe recipe{"SwiGLU", 14, 6, 0, 3, true};
  simulator::takes<simulator::Kind<T>::floats, T>("SwiGLU");
  uint64_t scratch = simulator::scratch(sharedTmpBuffer, simulator::leastScratch<T>(recipe), "SwiGLU");
  float beta = scalarValue;
  simulator::element2(recipe, dst, src0, src1, scratch, count,
                 [beta](T x, T y) { return float(x) * float(y) / (1.0f + std::exp(-beta * float(y))); });
}
template <typename T, bool isReuseSource = false>
inline void SwiGLU(LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& scalarValue,
                   const uint32_t count) {
  constexpr simulator::Recipe recipe{"SwiGLU", 14, 6, 0, 3, true};
  simulator::takes<simulator::Kind<T>::floats, T>("SwiGLU");
  uint64_t scratch = simulator::scratch(simulator::leastScratch<T>(recipe), "SwiGLU");
  float beta = scalarValue;
  simulator::element2(recipe, dst, src0, src1, scratch, count,
                 [beta](T x, T y) { return float(x) * float(y) / (1.0f + std::exp(-beta * float(y))); });
}
template <typename T, bool isReuseSource = false>
inline void SwiGLU(LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& scalarValue,
                   const LocalTensor<uint8_t>& sharedTmpBuffer) {
  SwiGLU<T, isReuseSource>(dst, src0, src1, scalarValue, sharedTmpBuffer, src0.GetSize());
}
template <typename T, bool isReuseSource = false>
inline void SwiGLU(LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& scalarValue) {
  SwiGLU<T, isReuseSource>(dst, src0, src1, scalarValue, src0.GetSize());
}

}  // namespace AscendC
