// Gradients of the library's LayerNorm: with respect to x, and with respect to gamma and beta.
#pragma once
#include "normalise.h"

namespace AscendC {

using tiling::LayerNormGradBetaTiling;
using tiling::LayerNormGradTiling;

struct LayerNormGradShapeInfo {
  DataFormat dataFormat = DataFormat::ND;
};

}  // namespace AscendC

namespace simulator {

template <typename T> struct LayerNormGradient {
  const AscendC::LocalTensor<T>&dx, &forGamma, &dy, &x, &variance, &mean, &gamma;

  void operator()(float epsilon, const Rows& rows) const {
    const char* what = "LayerNormGrad";
    takes<Kind<T>::floats, T>(what);
    alignedRows<T>(rows, what);
    uint64_t bytes = rows.elements() * sizeof(T);
    vectorCost(rows.elements() * sizeof(float), 24 + 4 * (sizeof(T) == 2), 24);
    for (const auto* read : {&dy, &x}) source(V, *read, bytes, what);
    for (const auto* read : {&variance, &mean}) source(V, *read, rows.count * sizeof(T), what);
    source(V, gamma, rows.width * sizeof(T), what);
    for (const auto* written : {&dx, &forGamma}) target(V, *written, bytes, what);
    if (isDry()) return;
    std::vector<double> weighted(rows.width), centred(rows.width);
    for (uint32_t r = 0; r < rows.count; r++) {
      double rstd = 1 / std::sqrt(double(float(variance.data()[r])) + double(epsilon)), centre = double(float(mean.data()[r]));
      double byVariance = 0, byMean = 0, sum = 0;
      for (uint32_t i = 0; i < rows.width; i++) {
        weighted[i] = double(float(dy.data()[rows.at(r, i)])) * double(float(gamma.data()[i]));
        centred[i] = double(float(x.data()[rows.at(r, i)])) - centre;
        byVariance -= 0.5 * weighted[i] * centred[i] * rstd * rstd * rstd;
        byMean -= weighted[i] * rstd;
        sum += centred[i];
      }
      byMean -= byVariance * 2 * sum / rows.width;
      for (uint32_t i = 0; i < rows.width; i++) {
        dx.data()[rows.at(r, i)] = T(float(weighted[i] * rstd + byVariance * 2 * centred[i] / rows.width + byMean / rows.width));
        forGamma.data()[rows.at(r, i)] = T(float(centred[i] * rstd));
      }
    }
  }
};

template <typename T>
inline void layerNormGradBeta(const AscendC::LocalTensor<T>& dGamma, const AscendC::LocalTensor<T>& dBeta, const AscendC::LocalTensor<T>& forGamma,
                              const AscendC::LocalTensor<T>& dy, const Rows& rows) {
  const char* what = "LayerNormGradBeta";
  takes<Kind<T>::floats, T>(what);
  alignedRows<T>(rows, what);
  vectorCost(rows.elements() * sizeof(float), 3 + 2 * (sizeof(T) == 2), 3);
  for (const auto* read : {&forGamma, &dy}) source(V, *read, rows.elements() * sizeof(T), what);
  for (const auto* written : {&dGamma, &dBeta}) target(V, *written, uint64_t(rows.stride) * sizeof(T), what);
  if (isDry()) return;
  std::vector<float> gammas(rows.stride), betas(rows.stride);
  for (uint32_t r = 0; r < rows.count; r++) {
    for (uint32_t i = 0; i < rows.stride; i++) {
      float given = float(dy.data()[rows.at(r, i)]);
      gammas[i] += given * float(forGamma.data()[rows.at(r, i)]);
      betas[i] += given;
    }
  }
  for (uint32_t i = 0; i < rows.stride; i++) {
    dGamma.data()[i] = T(gammas[i]);
    dBeta.data()[i] = T(betas[i]);
  }
}

}  // namespace simulator

namespace AscendC {

template <typename T, bool isReuseSource = false>
inline void LayerNormGrad(const LocalTensor<T>& outputPdX, const LocalTensor<T>& resForGamma, const LocalTensor<T>& inputDy,
                          const LocalTensor<T>& inputX, const LocalTensor<T>& inputVariance, const LocalTensor<T>& inputMean,
                          const LocalTensor<T>& inputGamma, const LocalTensor<uint8_t>& sharedTmpBuffer, T epsilon,
                          const LayerNormGradTiling& tiling, const LayerNormGradShapeInfo& = {}) {
  simulator::Rows rows = simulator::tiledRows(tiling);
  simulator::scratch(sharedTmpBuffer, 4 * simulator::rowScratch(rows), "LayerNormGrad");
  simulator::LayerNormGradient<T>{outputPdX, resForGamma, inputDy, inputX, inputVariance, inputMean, inputGamma}(float(epsilon), rows);
}
template <typename T, bool isReuseSource = false>
inline void LayerNormGrad(const LocalTensor<T>& outputPdX, const LocalTensor<T>& resForGamma, const LocalTensor<T>& inputDy,
                          const LocalTensor<T>& inputX, const LocalTensor<T>& inputVariance, const LocalTensor<T>& inputMean,
                          const LocalTensor<T>& inputGamma, T epsilon, const LayerNormGradTiling& tiling, const LayerNormGradShapeInfo& = {}) {
  simulator::Rows rows = simulator::tiledRows(tiling);
  simulator::scratch(4 * simulator::rowScratch(rows), "LayerNormGrad");
  simulator::LayerNormGradient<T>{outputPdX, resForGamma, inputDy, inputX, inputVariance, inputMean, inputGamma}(float(epsilon), rows);
}
template <typename T, bool isReuseSource = false>
inline void LayerNormGradBeta(const LocalTensor<T>& outputPdGamma, const LocalTensor<T>& outputPdBeta, const LocalTensor<T>& resForGamma,
                              const LocalTensor<T>& inputDy, const LocalTensor<uint8_t>& sharedTmpBuffer, const LayerNormGradBetaTiling& tiling) {
  simulator::Rows rows = simulator::tiledRows(tiling);
  simulator::scratch(sharedTmpBuffer, 2 * simulator::rowScratch(rows), "LayerNormGradBeta");
  simulator::layerNormGradBeta(outputPdGamma, outputPdBeta, resForGamma, inputDy, rows);
}
template <typename T, bool isReuseSource = false>
inline void LayerNormGradBeta(const LocalTensor<T>& outputPdGamma, const LocalTensor<T>& outputPdBeta, const LocalTensor<T>& resForGamma,
                              const LocalTensor<T>& inputDy, const LayerNormGradBetaTiling& tiling) {
  simulator::Rows rows = simulator::tiledRows(tiling);
  simulator::scratch(2 * simulator::rowScratch(rows), "LayerNormGradBeta");
  simulator::layerNormGradBeta(outputPdGamma, outputPdBeta, resForGamma, inputDy, rows);
}

}  // namespace AscendC
