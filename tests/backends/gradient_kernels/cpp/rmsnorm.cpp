#include <cmath>
#include <cstdint>

// With n = x / rms: grad_x = (g - n * mean(g * n)) / rms for g = grad_out * weight, and grad_weight sums grad_out * n over the rows.
extern "C" void kernel(const float* x, const int64_t* x_shape, const float* grad_out, const int64_t*, const float* weight, const int64_t*,
                       int64_t, double eps, float* grad_x, const int64_t*, float* grad_weight, const int64_t*) {
  const int64_t rows = x_shape[0], cols = x_shape[1];
  for (int64_t i = 0; i < cols; i++) grad_weight[i] = 0;
  for (int64_t row = 0; row < rows; row++) {
    const float *in = x + row * cols, *grad = grad_out + row * cols;
    double squares = 0, dot = 0;
    for (int64_t i = 0; i < cols; i++) {
      squares += double(in[i]) * in[i];
      dot += double(grad[i]) * weight[i] * in[i];
    }
    const double mean = squares / cols + eps;
    const float inverse = float(1 / std::sqrt(mean)), share = float(dot / cols / mean);
    for (int64_t i = 0; i < cols; i++) {
      grad_x[row * cols + i] = (grad[i] * weight[i] - in[i] * share) * inverse;
      grad_weight[i] += grad[i] * in[i] * inverse;
    }
  }
}
