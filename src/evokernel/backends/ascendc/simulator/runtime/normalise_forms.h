// The public overloads of the normalisations.
#pragma once

namespace AscendC {

// ---- LayerNorm with mean and variance
template <typename T, bool isReuseSource = false>
inline void LayerNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean, const LocalTensor<T>& outputVariance,
                      const LocalTensor<T>& inputX, const LocalTensor<T>& gamma, const LocalTensor<T>& beta,
                      const LocalTensor<uint8_t>& sharedTmpBuffer, const T epsilon, const LayerNormTiling& tiling) {
  simulator::Rows rows = simulator::tiledRows(tiling);
  simulator::scratch(sharedTmpBuffer, 2 * simulator::rowScratch(rows), "LayerNorm");
  simulator::normaliseRows<T, T, T>({"LayerNorm", float(epsilon)}, output, &outputMean, &outputVariance, inputX, nullptr, &gamma, &beta, rows);
}
template <typename T, bool isReuseSource = false>
inline void LayerNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean, const LocalTensor<T>& outputVariance,
                      const LocalTensor<T>& inputX, const LocalTensor<T>& gamma, const LocalTensor<T>& beta, const T epsilon,
                      const LayerNormTiling& tiling) {
  simulator::Rows rows = simulator::tiledRows(tiling);
  simulator::scratch(2 * simulator::rowScratch(rows), "LayerNorm");
  simulator::normaliseRows<T, T, T>({"LayerNorm", float(epsilon)}, output, &outputMean, &outputVariance, inputX, nullptr, &gamma, &beta, rows);
}
// ---- LayerNorm with mean and 1 / standard deviation
template <typename U, typename T, bool isReuseSource = false, const auto& config = LNCFG_NORM>
inline void LayerNorm(const LocalTensor<T>& output, const LocalTensor<float>& outputMean, const LocalTensor<float>& outputRstd,
                      const LocalTensor<T>& inputX, const LocalTensor<U>& gamma, const LocalTensor<U>& beta, const float epsilon,
                      const LocalTensor<uint8_t>& sharedTmpBuffer, const LayerNormPara& para, const LayerNormSeparateTiling&) {
  simulator::Rows rows{para.aLength, para.rLengthWithPadding ? para.rLengthWithPadding : para.rLength, para.rLength};
  simulator::scratch(sharedTmpBuffer, 2 * simulator::rowScratch(rows), "LayerNorm");
  simulator::Norm norm{"LayerNorm", epsilon, true, config.isOutputRstd};
  simulator::normaliseRows<T, U, float>(norm, output, config.isOnlyOutput ? nullptr : &outputMean, config.isOnlyOutput ? nullptr : &outputRstd,
                                   inputX, nullptr, config.isNoGamma ? nullptr : &gamma, config.isNoBeta ? nullptr : &beta, rows);
}
template <typename U, typename T, bool isReuseSource = false, const auto& config = LNCFG_NORM>
inline void LayerNorm(const LocalTensor<T>& output, const LocalTensor<float>& outputMean, const LocalTensor<float>& outputRstd,
                      const LocalTensor<T>& inputX, const LocalTensor<U>& gamma, const LocalTensor<U>& beta, const float epsilon,
                      const LayerNormPara& para, const LayerNormSeparateTiling&) {
  simulator::Rows rows{para.aLength, para.rLengthWithPadding ? para.rLengthWithPadding : para.rLength, para.rLength};
  simulator::scratch(2 * simulator::rowScratch(rows), "LayerNorm");
  simulator::Norm norm{"LayerNorm", epsilon, true, config.isOutputRstd};
  simulator::normaliseRows<T, U, float>(norm, output, config.isOnlyOutput ? nullptr : &outputMean, config.isOnlyOutput ? nullptr : &outputRstd,
                                   inputX, nullptr, config.isNoGamma ? nullptr : &gamma, config.isNoBeta ? nullptr : &beta, rows);
}

// ---- RmsNorm
template <typename T, bool isBasicBlock = false>
inline void RmsNorm(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& gamma,
                    const LocalTensor<uint8_t>& sharedTmpBuffer, const T epsilon, const RmsNormTiling& tiling) {
  simulator::Rows rows = simulator::tiledRows(tiling);
  simulator::scratch(sharedTmpBuffer, simulator::rowScratch(rows), "RmsNorm");
  simulator::normaliseRows<T, T, T>({"RmsNorm", float(epsilon), false}, dst, nullptr, nullptr, src, nullptr, &gamma, nullptr, rows);
}
template <typename T, bool isBasicBlock = false>
inline void RmsNorm(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& gamma, const T epsilon,
                    const RmsNormTiling& tiling) {
  simulator::Rows rows = simulator::tiledRows(tiling);
  simulator::scratch(simulator::rowScratch(rows), "RmsNorm");
  simulator::normaliseRows<T, T, T>({"RmsNorm", float(epsilon), false}, dst, nullptr, nullptr, src, nullptr, &gamma, nullptr, rows);
}

// ---- DeepNorm: LayerNorm of alpha * x + gx
template <typename T, bool isReuseSrc = false, bool isBasicBlock = false, class Tiling>
inline void DeepNorm(const LocalTensor<T>& dst, const LocalTensor<T>& mean, const LocalTensor<T>& rstd, const LocalTensor<T>& src,
                     const LocalTensor<T>& gx, const LocalTensor<T>& beta, const LocalTensor<T>& gamma,
                     const LocalTensor<uint8_t>& sharedTmpBuffer, const T alpha, const T epsilon, Tiling& tiling) {
  simulator::Rows rows = simulator::tiledRows(tiling);
  simulator::scratch(sharedTmpBuffer, 2 * simulator::rowScratch(rows), "DeepNorm");
  simulator::Norm norm{"DeepNorm", float(epsilon)};
  norm.alpha = float(alpha);
  simulator::normaliseRows<T, T, T>(norm, dst, &mean, &rstd, src, &gx, &gamma, &beta, rows);
}
template <typename T, bool isReuseSrc = false, bool isBasicBlock = false, class Tiling>
inline void DeepNorm(const LocalTensor<T>& dst, const LocalTensor<T>& mean, const LocalTensor<T>& rstd, const LocalTensor<T>& src,
                     const LocalTensor<T>& gx, const LocalTensor<T>& beta, const LocalTensor<T>& gamma, const T alpha, const T epsilon,
                     Tiling& tiling) {
  simulator::Rows rows = simulator::tiledRows(tiling);
  simulator::scratch(2 * simulator::rowScratch(rows), "DeepNorm");
  simulator::Norm norm{"DeepNorm", float(epsilon)};
  norm.alpha = float(alpha);
  simulator::normaliseRows<T, T, T>(norm, dst, &mean, &rstd, src, &gx, &gamma, &beta, rows);
}

// ---- GroupNorm, BatchNorm
#define SIMULATOR_NORM(NAME, FUNCTION, TILING)                                                                                  \
  template <typename T, bool isReuseSource = false, bool isBasicBlock = false>                                             \
  inline void NAME(const LocalTensor<T>& output, const LocalTensor<T>& outputMean, const LocalTensor<T>& outputVariance,   \
                   const LocalTensor<T>& inputX, const LocalTensor<T>& gamma, const LocalTensor<T>& beta,                  \
                   const LocalTensor<uint8_t>& sharedTmpBuffer, const T epsilon, const TILING& tiling) {                   \
    simulator::scratch(sharedTmpBuffer, 256, #NAME);                                                                            \
    simulator::FUNCTION(output, outputMean, outputVariance, inputX, gamma, beta, float(epsilon), tiling);                       \
  }                                                                                                                        \
  template <typename T, bool isReuseSource = false, bool isBasicBlock = false>                                             \
  inline void NAME(const LocalTensor<T>& output, const LocalTensor<T>& outputMean, const LocalTensor<T>& outputVariance,   \
                   const LocalTensor<T>& inputX, const LocalTensor<T>& gamma, const LocalTensor<T>& beta, const T epsilon, \
                   const TILING& tiling) {                                                                                 \
    simulator::scratch(256, #NAME);                                                                                             \
    simulator::FUNCTION(output, outputMean, outputVariance, inputX, gamma, beta, float(epsilon), tiling);                       \
  }
SIMULATOR_NORM(GroupNorm, groupNorm, GroupNormTiling)
SIMULATOR_NORM(BatchNorm, batchNorm, BatchNormTiling)
#undef SIMULATOR_NORM

// ---- Normalize: with given mean and variance
template <typename U, typename T, bool isReuseSource = false, const auto& config = NLCFG_NORM>
inline void Normalize(const LocalTensor<T>& output, const LocalTensor<float>& outputRstd, const LocalTensor<float>& inputMean,
                      const LocalTensor<float>& inputVariance, const LocalTensor<T>& inputX, const LocalTensor<U>& gamma,
                      const LocalTensor<U>& beta, const LocalTensor<uint8_t>& sharedTmpBuffer, const float epsilon,
                      const NormalizePara& para) {
  const char* what = "Normalize";
  simulator::Rows rows{para.aLength, para.rLengthWithPadding ? para.rLengthWithPadding : para.rLength, para.rLength};
  simulator::alignedRows<T>(rows, what);
  simulator::scratch(sharedTmpBuffer, simulator::rowScratch(rows), what);
  simulator::vectorCost(rows.elements() * sizeof(float), 7, 8);
  simulator::source(simulator::V, inputX, rows.elements() * sizeof(T), what);
  simulator::source(simulator::V, inputMean, rows.count * sizeof(float), what);
  simulator::source(simulator::V, inputVariance, rows.count * sizeof(float), what);
  simulator::target(simulator::V, output, rows.elements() * sizeof(T), what);
  if (!config.isOnlyOutput) simulator::rowNumbers(outputRstd, rows.count, what);
  if (simulator::isDry()) return;
  for (uint32_t row = 0; row < rows.count; row++) {
    float rstd = 1.0f / std::sqrt(inputVariance.data()[row] + epsilon);
    for (uint32_t i = 0; i < rows.width; i++) {
      float value = (float(inputX.data()[rows.at(row, i)]) - inputMean.data()[row]) * rstd;
      if (!config.isNoGamma) value *= float(gamma.data()[i]);
      if (!config.isNoBeta) value += float(beta.data()[i]);
      output.data()[rows.at(row, i)] = T(value);
    }
    if (!config.isOnlyOutput) outputRstd.data()[row] = rstd;
  }
}

// ---- Welford: mean and variance of data in pieces. One update adds a piece to the running statistics of each column.
template <typename T, typename U, bool isReuseSource = false, const auto& config = WFUPDATE_DEFAULT_CFG>
inline void WelfordUpdate(const LocalTensor<U>& outputMean, const LocalTensor<U>& outputVariance, const LocalTensor<U>& inputMean,
                          const LocalTensor<U>& inputVariance, const LocalTensor<T>& inputX, const LocalTensor<uint8_t>& sharedTmpBuffer,
                          const WelfordUpdateParam& para) {
  const char* what = "WelfordUpdate";
  simulator::scratch(sharedTmpBuffer, 256, what);
  uint64_t count = para.abComputeLength;
  simulator::vectorCost(count * sizeof(float), 8, 7);
  simulator::source(simulator::V, inputX, count * sizeof(T), what);
  simulator::source(simulator::V, inputMean, count * sizeof(U), what);
  simulator::source(simulator::V, inputVariance, count * sizeof(U), what);
  simulator::target(simulator::V, outputMean, count * sizeof(U), what);
  simulator::target(simulator::V, outputVariance, count * sizeof(U), what);
  for (uint64_t i = 0; i < count; i++) {
    float x = float(inputX.data()[i]), before = float(inputMean.data()[i]), spread = float(inputVariance.data()[i]);
    float mean = before + (x - before) * para.nRec;
    outputMean.data()[i] = U(mean);
    outputVariance.data()[i] = U(spread + (x - before) * (x - mean));
  }
}
template <typename T, typename U, bool isReuseSource = false, const auto& config = WFUPDATE_DEFAULT_CFG>
inline void WelfordUpdate(const LocalTensor<U>& outputMean, const LocalTensor<U>& outputVariance, const LocalTensor<U>& inputMean,
                          const LocalTensor<U>& inputVariance, const LocalTensor<T>& inputX, const WelfordUpdateParam& para) {
  LocalTensor<uint8_t> scratch(TPosition::VECCALC, uint32_t(simulator::chip().ub_bytes) - 256, 256);
  WelfordUpdate<T, U, isReuseSource, config>(outputMean, outputVariance, inputMean, inputVariance, inputX, scratch, para);
}

// Combines the statistics of all columns into one mean and one variance. `counts`, or head and tail, give the number of pieces per column.
template <bool isReuseSource = false, const auto& config = WFFINALIZE_DEFAULT_CFG>
inline void WelfordFinalize(const LocalTensor<float>& outputMean, const LocalTensor<float>& outputVariance,
                            const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance,
                            const LocalTensor<int32_t>& counts, const LocalTensor<uint8_t>& sharedTmpBuffer, WelfordFinalizePara& para) {
  simulator::scratch(sharedTmpBuffer, 256, "WelfordFinalize");
  simulator::source(simulator::V, counts, para.abLength * sizeof(int32_t), "WelfordFinalize");
  simulator::welford(outputMean, outputVariance, inputMean, inputVariance, para, config.isCorrection,
                [&](uint32_t i) { return double(counts.data()[i]); });
}
template <bool isReuseSource = false, const auto& config = WFFINALIZE_DEFAULT_CFG>
inline void WelfordFinalize(const LocalTensor<float>& outputMean, const LocalTensor<float>& outputVariance,
                            const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance,
                            const LocalTensor<uint8_t>& sharedTmpBuffer, WelfordFinalizePara& para) {
  simulator::scratch(sharedTmpBuffer, 256, "WelfordFinalize");
  simulator::welford(outputMean, outputVariance, inputMean, inputVariance, para, config.isCorrection,
                [&](uint32_t i) { return double(i < para.headCountLength ? para.headCount : para.tailCount); });
}

}  // namespace AscendC
