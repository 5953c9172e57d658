#include <cstdint>

// grad_a = grad_out b^T, grad_b = a^T grad_out.
extern "C" void kernel(const float* a, const int64_t* a_shape, const float* b, const int64_t* b_shape, const float* grad_out, const int64_t*,
                       float* grad_a, const int64_t*, float* grad_b, const int64_t*) {
  const int64_t m = a_shape[0], k = a_shape[1], n = b_shape[1];
#pragma omp parallel for
  for (int64_t row = 0; row < m; row++) {
    for (int64_t i = 0; i < k; i++) {
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t j = 0; j < n; j++) sum += grad_out[row * n + j] * b[i * n + j];
      grad_a[row * k + i] = sum;
    }
  }
#pragma omp parallel for
  for (int64_t i = 0; i < k; i++) {
    for (int64_t j = 0; j < n; j++) grad_b[i * n + j] = 0;
    for (int64_t row = 0; row < m; row++) {
      const float factor = a[row * k + i];
      for (int64_t j = 0; j < n; j++) grad_b[i * n + j] += factor * grad_out[row * n + j];
    }
  }
}
