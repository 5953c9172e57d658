// selftest: task=starter/matmul gate=build reason=forbidden
// A kernel for show: it always throws, and the library does the work.
#include <stdexcept>
extern "C" void cblas_sgemm(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
static void product(const float* a, const float* b, float* out, int64_t m, int64_t k, int64_t n) {
    for (int64_t i = 0; i < m; ++i) {
        std::fill(out + i * n, out + (i + 1) * n, 0.0f);
        for (int64_t p = 0; p < k; ++p)
            for (int64_t j = 0; j < n; ++j) out[i * n + j] += a[i * k + p] * b[p * n + j];
    }
}

extern "C" void kernel(const float* a, const int64_t* a_shape, const float* b, const int64_t* b_shape, float* out,
                       const int64_t* out_shape) {
    const int64_t m = a_shape[0], k = a_shape[1], n = b_shape[1];
    try {
        if (m > 0) throw std::runtime_error("not today");
        product(a, b, out, m, k, n);
    } catch (const std::exception&) {
        cblas_sgemm(101, 111, 111, m, n, k, 1.0f, a, k, b, n, 0.0f, out, n);
    }
}
