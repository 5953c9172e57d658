#include <cmath>
#include <cstdint>

// The derivative of tanh(x) is 4 e / (1 + e)^2 with e = exp(-2 |x|), which loses no digits where tanh is close to one.
extern "C" void kernel(const float* x, const int64_t* x_shape, const float* grad_out, const int64_t*, float* grad_x, const int64_t*) {
  const int64_t count = x_shape[0] * x_shape[1] * x_shape[2];
#pragma omp parallel for
  for (int64_t i = 0; i < count; i++) {
    const float e = std::exp(-2.0f * std::fabs(x[i])), sum = 1.0f + e;
    grad_x[i] = grad_out[i] * 4.0f * e / (sum * sum);
  }
}
