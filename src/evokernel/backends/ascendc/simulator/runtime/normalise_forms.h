// The public forms of the normalisations.
#pragma once

namespace AscendC {

// ---- LayerNorm with mean and variance
template <typename T, bool isReuseSource = false>
inline void LayerNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean, const LocalTensor<T>& outputVariance,
                      const LocalTensor<T>& inputX, const LocalTensor<T>& gamma, const LocalTensor<T>& beta,
                      const LocalTensor<uint8_t>& sharedTmpBuffer, const T epsilon, const LayerNormTiling& tiling) {
  twin::Rows rows = twin::tiledRows(tiling);
  twin::scratch(sharedTmpBuffer, 2 * twin::rowScratch(rows), "LayerNorm");
  twin::normaliseRows<T, T, T>({"LayerNorm", float(epsilon)}, output, &outputMean, &outputVariance, inputX, nullptr, &gamma, &beta, rows);
}
template <typename T, bool isReuseSource = false>
inline void LayerNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean, const LocalTensor<T>& outputVariance,
                      const LocalTensor<T>& inputX, const LocalTensor<T>& gamma, const LocalTensor<T>& beta, const T epsilon,
                      const LayerNormTiling& tiling) {
  twin::Rows rows = twin::tiledRows(tiling);
  twin::scratch(2 * twin::rowScratch(rows), "LayerNorm");
  twin::normaliseRows<T, T, T>({"LayerNorm", float(epsilon)}, output, &outputMean, &outputVariance, inputX, nullptr, &gamma, &beta, rows);
}
// ---- LayerNorm with mean and 1 / standard deviation
template <typename U, typename T, bool isReuseSource = false, const auto& config = LNCFG_NORM>
inline void LayerNorm(const LocalTensor<T>& output, const LocalTensor<float>& outputMean, const LocalTensor<float>& outputRstd,
                      const LocalTensor<T>& inputX, const LocalTensor<U>& gamma, const LocalTensor<U>& beta, const float epsilon,
                      const LocalTensor<uint8_t>& sharedTmpBuffer, const LayerNormPara& para, const LayerNormSeparateTiling&) {
  twin::Rows rows{para.aLength, para.rLengthWithPadding ? para.rLengthWithPadding : para.rLength, para.rLength};
  twin::scratch(sharedTmpBuffer, 2 * twin::rowScratch(rows), "LayerNorm");
  twin::Norm norm{"LayerNorm", epsilon, true, config.isOutputRstd};
  twin::normaliseRows<T, U, float>(norm, output, config.isOnlyOutput ? nullptr : &outputMean, config.isOnlyOutput ? nullptr : &outputRstd,
                                   inputX, nullptr, config.isNoGamma ? nullptr : &gamma, config.isNoBeta ? nullptr : &beta, rows);
}
template <typename U, typename T, bool isReuseSource = false, const auto& config = LNCFG_NORM>
inline void LayerNorm(const LocalTensor<T>& output, const LocalTensor<float>& outputMean, const LocalTensor<float>& outputRstd,
                      const LocalTensor<T>& inputX, const LocalTensor<U>& gamma, const LocalTensor<U>& beta, const float epsilon,
                      const LayerNormPara& para, const LayerNormSeparateTiling&) {
  twin::Rows rows{para.aLength, para.rLengthWithPadding ? para.rLengthWithPadding : para.rLength, para.rLength};
  twin::scratch(2 * twin::rowScratch(rows), "LayerNorm");
  twin::Norm norm{"LayerNorm", epsilon, true, config.isOutputRstd};
  twin::normaliseRows<T, U, float>(norm, output, config.isOnlyOutput ? nullptr : &outputMean, config.isOnlyOutput ? nullptr : &outputRstd,
                                   inputX, nullptr, config.isNoGamma ? nullptr : &gamma, config.isNoBeta ? nullptr : &beta, rows);
}

// ---- RmsNorm
template <typename T, bool isBasicBlock = false>
inline void RmsNorm(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& gamma,
                    const LocalTensor<uint8_t>& sharedTmpBuffer, const T epsilon, const RmsNormTiling& tiling) {
  twin::Rows rows = twin::tiledRows(tiling);
  twin::scratch(sharedTmpBuffer, twin::rowScratch(rows), "RmsNorm");
  twin::normaliseRows<T, T, T>({"RmsNorm", float(epsilon), false}, dst, nullptr, nullptr, src, nullptr, &gamma, nullptr, rows);
}
template <typename T, bool isBasicBlock = false>
inline void RmsNorm(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& gamma, const T epsilon,
                    const RmsNormTiling& tiling) {
  twin::Rows rows = twin::tiledRows(tiling);
  twin::scratch(twin::rowScratch(rows), "RmsNorm");
  twin::normaliseRows<T, T, T>({"RmsNorm", float(epsilon), false}, dst, nullptr, nullptr, src, nullptr, &gamma, nullptr, rows);
}

// ---- DeepNorm: LayerNorm of alpha * x + gx
template <typename T, bool isReuseSrc = false, bool isBasicBlock = false, class Tiling>
inline void DeepNorm(const LocalTensor<T>& dst, const LocalTensor<T>& mean, const LocalTensor<T>& rstd, const LocalTensor<T>& src,
                     const LocalTensor<T>& gx, const LocalTensor<T>& beta, const LocalTensor<T>& gamma,
                     const LocalTensor<uint8_t>& sharedTmpBuffer, const T alpha, const T epsilon, Tiling& tiling) {
  twin::Rows rows = twin::tiledRows(tiling);
  twin::scratch(sharedTmpBuffer, 2 * twin::rowScratch(rows), "DeepNorm");
  twin::Norm norm{"DeepNorm", float(epsilon)};
  norm.alpha = float(alpha);
  twin::normaliseRows<T, T, T>(norm, dst, &mean, &rstd, src, &gx, &gamma, &beta, rows);
}
template <typename T, bool isReuseSrc = false, bool isBasicBlock = false, class Tiling>
inline void DeepNorm(const LocalTensor<T>& dst, const LocalTensor<T>& mean, const LocalTensor<T>& rstd, const LocalTensor<T>& src,
                     const LocalTensor<T>& gx, const LocalTensor<T>& beta, const LocalTensor<T>& gamma, const T alpha, const T epsilon,
                     Tiling& tiling) {
  twin::Rows rows = twin::tiledRows(tiling);
  twin::scratch(2 * twin::rowScratch(rows), "DeepNorm");
  twin::Norm norm{"DeepNorm", float(epsilon)};
  norm.alpha = float(alpha);
  twin::normaliseRows<T, T, T>(norm, dst, &mean, &rstd, src, &gx, &gamma, &beta, rows);
}

// ---- GroupNorm, BatchNorm
#define TWIN_NORM(NAME, FUNCTION, TILING)                                                                                  \
  template <typename T, bool isReuseSource = false, bool isBasicBlock = false>                                             \
  inline void NAME(const LocalTensor<T>& output, const LocalTensor<T>& outputMean, const LocalTensor<T>& outputVariance,   \
                   const LocalTensor<T>& inputX, const LocalTensor<T>& gamma, const LocalTensor<T>& beta,                  \
                   const LocalTensor<uint8_t>& sharedTmpBuffer, const T epsilon, const TILING& tiling) {                   \
    twin::scratch(sharedTmpBuffer, 256, #NAME);                                                                            \
    twin::FUNCTION(output, outputMean, outputVariance, inputX, gamma, beta, float(epsilon), tiling);                       \
  }                                                                                                                        \
  template <typename T, bool isReuseSource = false, bool isBasicBlock = false>                                             \
  inline void NAME(const LocalTensor<T>& output, const LocalTensor<T>& outputMean, const LocalTensor<T>& outputVariance,   \
                   const LocalTensor<T>& inputX, const LocalTensor<T>& gamma, const LocalTensor<T>& beta, const T epsilon, \
                   const TILING& tiling) {                                                                                 \
    twin::scratch(256, #NAME);                                                                                             \
    twin::FUNCTION(output, outputMean, outputVariance, inputX, gamma, beta, float(epsilon), tiling);                       \
  }
TWIN_NORM(GroupNorm, groupNorm, GroupNormTiling)
TWIN_NORM(BatchNorm, batchNorm, BatchNormTiling)
#undef TWIN_NORM

// ---- Normalize: with mean and variance that are known
template <typename U, typename T, bool isReuseSource = false, const auto& config = NLCFG_NORM>
inline void Normalize(const LocalTensor<T>& output, const LocalTensor<float>& outputRstd, const LocalTensor<float>& inputMean,
                      const LocalTensor<float>& inputVariance, const LocalTensor<T>& inputX, const LocalTensor<U>& gamma,
                      const LocalTensor<U>& beta, const LocalTensor<uint8_t>& sharedTmpBuffer, const float epsilon,
                      const NormalizePara& para) {
  const char* what = "Normalize";
  twin::Rows rows{para.aLength, para.rLengthWithPadding ? para.rLengthWithPadding : para.rLength, para.rLength};
  twin::alignedRows<T>(rows, what);
  twin::scratch(sharedTmpBuffer, twin::rowScratch(rows), what);
  twin::vectorCost(rows.elements() * sizeof(float), 7, 8);
  twin::source(twin::V, inputX, rows.elements() * sizeof(T), what);
  twin::source(twin::V, inputMean, rows.count * sizeof(float), what);
  twin::source(twin::V, inputVariance, rows.count * sizeof(float), what);
  twin::target(twin::V, output, rows.elements() * sizeof(T), what);
  if (!config.isOnlyOutput) twin::rowNumbers(outputRstd, rows.count, what);
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

// ---- Welford: mean and variance of what comes in pieces. One update takes a piece into running numbers of each column.
template <typename T, typename U, bool isReuseSource = false, const auto& config = WFUPDATE_DEFAULT_CFG>
inline void WelfordUpdate(const LocalTensor<U>& outputMean, const LocalTensor<U>& outputVariance, const LocalTensor<U>& inputMean,
                          const LocalTensor<U>& inputVariance, const LocalTensor<T>& inputX, const LocalTensor<uint8_t>& sharedTmpBuffer,
                          const WelfordUpdateParam& para) {
  const char* what = "WelfordUpdate";
  twin::scratch(sharedTmpBuffer, 256, what);
  uint64_t count = para.abComputeLength;
  twin::vectorCost(count * sizeof(float), 8, 7);
  twin::source(twin::V, inputX, count * sizeof(T), what);
  twin::source(twin::V, inputMean, count * sizeof(U), what);
  twin::source(twin::V, inputVariance, count * sizeof(U), what);
  twin::target(twin::V, outputMean, count * sizeof(U), what);
  twin::target(twin::V, outputVariance, count * sizeof(U), what);
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
  LocalTensor<uint8_t> scratch(TPosition::VECCALC, uint32_t(twin::chip().ub_bytes) - 256, 256);
  WelfordUpdate<T, U, isReuseSource, config>(outputMean, outputVariance, inputMean, inputVariance, inputX, scratch, para);
}

// The numbers of all columns become one mean and one variance. Columns saw so many pieces each: `counts` has them, or head and tail.
template <bool isReuseSource = false, const auto& config = WFFINALIZE_DEFAULT_CFG>
inline void WelfordFinalize(const LocalTensor<float>& outputMean, const LocalTensor<float>& outputVariance,
                            const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance,
                            const LocalTensor<int32_t>& counts, const LocalTensor<uint8_t>& sharedTmpBuffer, WelfordFinalizePara& para) {
  twin::scratch(sharedTmpBuffer, 256, "WelfordFinalize");
  twin::source(twin::V, counts, para.abLength * sizeof(int32_t), "WelfordFinalize");
  twin::welford(outputMean, outputVariance, inputMean, inputVariance, para, config.isCorrection,
                [&](uint32_t i) { return double(counts.data()[i]); });
}
template <bool isReuseSource = false, const auto& config = WFFINALIZE_DEFAULT_CFG>
inline void WelfordFinalize(const LocalTensor<float>& outputMean, const LocalTensor<float>& outputVariance,
                            const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance,
                            const LocalTensor<uint8_t>& sharedTmpBuffer, WelfordFinalizePara& para) {
  twin::scratch(sharedTmpBuffer, 256, "WelfordFinalize");
  twin::welford(outputMean, outputVariance, inputMean, inputVariance, para, config.isCorrection,
                [&](uint32_t i) { return double(i < para.headCountLength ? para.headCount : para.tailCount); });
}

}  // namespace AscendC
