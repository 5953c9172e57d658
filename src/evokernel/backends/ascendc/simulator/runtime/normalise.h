// The library's normalisations. Tilings contain the shapes; their other fields only control the split of scratch memory.
#pragma once
#include "choices.h"
#include "softmax.h"

namespace AscendC {

using tiling::BatchNormTiling;
using tiling::GroupNormTiling;
using tiling::LayerNormSeparateTiling;
using tiling::LayerNormTiling;
using tiling::RmsNormTiling;

struct LayerNormConfig {
  bool isNoBeta = false, isNoGamma = false, isOnlyOutput = false, isOutputRstd = true;
};
constexpr LayerNormConfig LNCFG_NORM{}, LNCFG_NOBETA{true, false, false, true}, LNCFG_NOGAMMA{false, true, false, true};
constexpr LayerNormConfig LNCFG_ONLYOUTPUT{false, false, true, true}, LNCFG_NOGAMMABETA{true, true, false, true};
struct LayerNormPara {
  uint32_t aLength = 0, rLength = 0, rLengthWithPadding = 0;
};
struct WelfordUpdateConfig {
  bool isInplace = false;
  constexpr WelfordUpdateConfig(bool inPlace) : isInplace(inPlace) {}
};
constexpr WelfordUpdateConfig WFUPDATE_DEFAULT_CFG{false};
struct WelfordUpdateParam {
  uint32_t rnLength = 0, abLength = 0, abComputeLength = 0;
  float nRec = 0;
};
struct WelfordFinalizeConfig {
  bool isCorrection = false;
  constexpr WelfordFinalizeConfig(bool correction) : isCorrection(correction) {}
};
constexpr WelfordFinalizeConfig WFFINALIZE_DEFAULT_CFG{false};
struct WelfordFinalizePara {
  uint32_t rnLength = 0, abLength = 0, headCount = 0, headCountLength = 0, tailCount = 0, tailCountLength = 0;
  float abRec = 0, rRec = 0, rRecWithCorrection = 0;
};
struct NormalizeConfig {
  ReducePattern reducePattern = ReducePattern::AR;
  int32_t aLength = -1;
  bool isNoBeta = false, isNoGamma = false, isOnlyOutput = false;
};
constexpr NormalizeConfig NLCFG_NORM{};
struct NormalizePara {
  uint32_t aLength = 0, rLength = 0, rLengthWithPadding = 0;
};

}  // namespace AscendC

namespace simulator {

struct Moments {
  float mean, variance;
};
template <typename F> inline Moments moments(uint64_t count, F value) {
  double sum = 0, squares = 0;
  for (uint64_t i = 0; i < count; i++) sum += value(i);
  double mean = sum / double(count);
  for (uint64_t i = 0; i < count; i++) squares += (value(i) - mean) * (value(i) - mean);
  return {float(mean), float(squares / double(count))};
}

// The destination of the statistics of a row: float or half.
template <typename M> inline void rowNumbers(const AscendC::LocalTensor<M>& tensor, uint64_t count, const char* what) {
  target(V, tensor, count * sizeof(M), what);
}

struct Norm {  // the kind of normalisation
  const char* what;
  float epsilon;
  bool centred = true, outputsRstd = false, gamma = true, beta = true;
  float alpha = 0;  // DeepNorm: factor of the residual x
};

// Normalises rows of x (plus a scaled second tensor). Also returns mean and variance of each row if requested.
template <typename T, typename U, typename M>
inline void normaliseRows(const Norm& norm, const AscendC::LocalTensor<T>& output, const AscendC::LocalTensor<M>* means,
                          const AscendC::LocalTensor<M>* spreads, const AscendC::LocalTensor<T>& x, const AscendC::LocalTensor<T>* more,
                          const AscendC::LocalTensor<U>* gamma, const AscendC::LocalTensor<U>* beta, const Rows& rows) {
  takes<Kind<T>::floats || Kind<T>::bf16, T>(norm.what);
  alignedRows<T>(rows, norm.what);
  uint64_t bytes = rows.elements() * sizeof(T);
  vectorCost(rows.elements() * sizeof(float), (norm.centred ? 13 : 9) + 2 * (sizeof(T) == 2) + 2 * (more != nullptr), 12);
  source(V, x, bytes, norm.what);
  if (more) source(V, *more, bytes, norm.what);
  if (gamma) source(V, *gamma, uint64_t(rows.width) * sizeof(U), norm.what);
  if (beta) source(V, *beta, uint64_t(rows.width) * sizeof(U), norm.what);
  target(V, output, bytes, norm.what);
  apart(output, bytes, x, bytes, true, norm.what);
  if (means) rowNumbers(*means, rows.count, norm.what);
  if (spreads) rowNumbers(*spreads, rows.count, norm.what);
  if (isDry()) return;
  std::vector<float> row(rows.width);
  for (uint32_t r = 0; r < rows.count; r++) {
    for (uint32_t i = 0; i < rows.width; i++) {
      row[i] = float(x.data()[rows.at(r, i)]);
      if (more) row[i] = norm.alpha * row[i] + float(more->data()[rows.at(r, i)]);
    }
    Moments found = moments(rows.width, [&](uint64_t i) { return double(row[i]); });
    if (!norm.centred) found = {0, found.variance + found.mean * found.mean};
    float rstd = 1.0f / std::sqrt(found.variance + norm.epsilon);
    for (uint32_t i = 0; i < rows.width; i++) {
      float value = (row[i] - found.mean) * rstd;
      if (gamma) value *= float(gamma->data()[i]);
      if (beta) value += float(beta->data()[i]);
      output.data()[rows.at(r, i)] = T(value);
    }
    if (means) means->data()[r] = M(found.mean);
    if (spreads) spreads->data()[r] = M(norm.outputsRstd ? rstd : found.variance);
  }
}
template <class Tiling> inline Rows tiledRows(const Tiling& tiling) {
  return {tiling.bLength * tiling.sLength, tiling.hLength, tiling.originalHLength ? tiling.originalHLength : tiling.hLength};
}

// [n][groups][channels of a group][pixels], normalised over the last two axes.
template <typename T>
inline void groupNorm(const AscendC::LocalTensor<T>& output, const AscendC::LocalTensor<T>& means, const AscendC::LocalTensor<T>& variances,
                      const AscendC::LocalTensor<T>& x, const AscendC::LocalTensor<T>& gamma, const AscendC::LocalTensor<T>& beta,
                      float epsilon, const AscendC::GroupNormTiling& tiling) {
  const char* what = "GroupNorm";
  takes<Kind<T>::floats, T>(what);
  uint32_t deep = tiling.g ? tiling.c / tiling.g : 0, pixels = tiling.hw;
  if (!deep || !pixels || tiling.c % tiling.g)
    endRun("E-LIB-SHAPE", "GroupNorm: invalid shape of %u channels in %u groups of %u pixels", tiling.c, tiling.g, pixels);
  uint64_t aligned = (uint64_t(pixels) * sizeof(T) + BLOCK - 1) / BLOCK * BLOCK / sizeof(T),
           bytes = uint64_t(tiling.n) * tiling.c * aligned * sizeof(T);
  vectorCost(bytes / sizeof(T) * sizeof(float), 13, 12 * int(tiling.n * tiling.g));
  source(V, x, bytes, what);
  source(V, gamma, tiling.c * sizeof(T), what);
  source(V, beta, tiling.c * sizeof(T), what);
  target(V, output, bytes, what);
  rowNumbers(means, uint64_t(tiling.n) * tiling.g, what);
  rowNumbers(variances, uint64_t(tiling.n) * tiling.g, what);
  if (isDry()) return;
  for (uint32_t group = 0; group < tiling.n * tiling.g; group++) {
    uint64_t start = uint64_t(group) * deep * aligned;
    auto at = [&](uint64_t i) { return start + i / pixels * aligned + i % pixels; };
    Moments found = moments(uint64_t(deep) * pixels, [&](uint64_t i) { return double(float(x.data()[at(i)])); });
    float rstd = 1.0f / std::sqrt(found.variance + epsilon);
    for (uint64_t i = 0; i < uint64_t(deep) * pixels; i++) {
      uint64_t channel = group % tiling.g * deep + i / pixels;
      output.data()[at(i)] = T((float(x.data()[at(i)]) - found.mean) * rstd * float(gamma.data()[channel]) + float(beta.data()[channel]));
    }
    means.data()[group] = T(found.mean);
    variances.data()[group] = T(found.variance);
  }
}

// [batch][rest], normalised over the batch; gamma and beta belong to the batch's elements.
template <typename T>
inline void batchNorm(const AscendC::LocalTensor<T>& output, const AscendC::LocalTensor<T>& means, const AscendC::LocalTensor<T>& variances,
                      const AscendC::LocalTensor<T>& x, const AscendC::LocalTensor<T>& gamma, const AscendC::LocalTensor<T>& beta,
                      float epsilon, const AscendC::BatchNormTiling& tiling) {
  const char* what = "BatchNorm";
  takes<Kind<T>::floats, T>(what);
  uint32_t batch = tiling.originalBLength, rest = tiling.meanVarSize;
  if (!batch || !rest) endRun("E-LIB-SHAPE", "BatchNorm: invalid shape, a batch of %u with %u elements each", batch, rest);
  if (rest * sizeof(T) % BLOCK) reportViolation("E-LIB-ALIGN", "BatchNorm: the %u elements behind the batch axis are not a multiple of 32 bytes", rest);
  uint64_t bytes = uint64_t(batch) * rest * sizeof(T);
  vectorCost(bytes / sizeof(T) * sizeof(float), 13, 12);
  source(V, x, bytes, what);
  source(V, gamma, batch * sizeof(T), what);
  source(V, beta, batch * sizeof(T), what);
  target(V, output, bytes, what);
  rowNumbers(means, rest, what);
  rowNumbers(variances, rest, what);
  if (isDry()) return;
  for (uint32_t i = 0; i < rest; i++) {
    Moments found = moments(batch, [&](uint64_t b) { return double(float(x.data()[b * rest + i])); });
    float rstd = 1.0f / std::sqrt(found.variance + epsilon);
    for (uint32_t b = 0; b < batch; b++)
      output.data()[uint64_t(b) * rest + i] =
          T((float(x.data()[uint64_t(b) * rest + i]) - found.mean) * rstd * float(gamma.data()[b]) + float(beta.data()[b]));
    means.data()[i] = T(found.mean);
    variances.data()[i] = T(found.variance);
  }
}

// Combines the means and variances of columns, each with its number of values, into one.
template <typename N>
inline void welford(const AscendC::LocalTensor<float>& mean, const AscendC::LocalTensor<float>& variance,
                    const AscendC::LocalTensor<float>& means, const AscendC::LocalTensor<float>& spreads,
                    const AscendC::WelfordFinalizePara& para, bool corrected, N number) {
  const char* what = "WelfordFinalize";
  if (!para.abLength) endRun("E-LIB-SHAPE", "WelfordFinalize: abLength is 0");
  vectorCost(uint64_t(para.abLength) * sizeof(float), 9, 10);
  source(V, means, para.abLength * sizeof(float), what);
  source(V, spreads, para.abLength * sizeof(float), what);
  target(V, mean, sizeof(float), what);
  target(V, variance, sizeof(float), what);
  if (isDry()) return;
  double sum = 0, squares = 0;
  for (uint32_t i = 0; i < para.abLength; i++) sum += number(i) * double(means.data()[i]);
  double centre = sum * double(para.rRec);
  for (uint32_t i = 0; i < para.abLength; i++) {
    double off = double(means.data()[i]) - centre;
    squares += number(i) * off * off + double(spreads.data()[i]);
  }
  mean.data()[0] = float(centre);
  variance.data()[0] = float(squares * double(corrected ? para.rRecWithCorrection : para.rRec));
}

}  // namespace simulator

#include "normalise_forms.h"
