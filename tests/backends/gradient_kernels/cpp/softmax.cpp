#include <algorithm>
#include <cmath>
#include <cstdint>

// With y = softmax(x): grad_x = y * (grad_out - sum(y * grad_out)).
extern "C" void kernel(const float* x, const int64_t* x_shape, const float* grad_out, const int64_t*, float* grad_x, const int64_t*) {
  const int64_t rows = x_shape[0], cols = x_shape[1];
#pragma omp parallel for
  for (int64_t row = 0; row < rows; row++) {
    const float *in = x + row * cols, *grad = grad_out + row * cols;
    float* out = grad_x + row * cols;
    const float largest = *std::max_element(in, in + cols);
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < cols; i++) {
      out[i] = std::exp(in[i] - largest);
      sum += out[i];
      dot += double(out[i]) * grad[i];
    }
    const float scale = float(1 / sum), mean = float(dot / sum);
    for (int64_t i = 0; i < cols; i++) out[i] *= scale * (grad[i] - mean);
  }
}
