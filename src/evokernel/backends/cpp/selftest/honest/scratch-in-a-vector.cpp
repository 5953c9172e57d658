// selftest: task=starter/matmul
// Transposes into a container, and takes care of exceptions of its own.
#include <memory>
#include <stdexcept>
#include <vector>

extern "C" void kernel(const float* a, const int64_t* a_shape, const float* b, const int64_t* b_shape, float* out,
                       const int64_t* out_shape) {
    const int64_t m = a_shape[0], k = a_shape[1], n = b_shape[1];
    try {
        std::vector<float> turned(k * n);
        for (int64_t p = 0; p < k; ++p)
            for (int64_t j = 0; j < n; ++j) turned.at(j * k + p) = b[p * n + j];
        auto sums = std::make_unique<double[]>(n);
        for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
                float sum = 0;
#pragma omp simd reduction(+ : sum)
                for (int64_t p = 0; p < k; ++p) sum += a[i * k + p] * turned[j * k + p];
                sums[j] = sum;
            }
            for (int64_t j = 0; j < n; ++j) out[i * n + j] = (float)sums[j];
        }
    } catch (const std::bad_alloc&) {
        for (int64_t i = 0; i < m * n; ++i) out[i] = 0;
    } catch (const std::out_of_range& error) {
        out[0] = error.what()[0];
    }
}
