// selftest: task=starter/matmul gate=build reason=forbidden
// Has the runtime look for a device, and the compiler write the kernel for it.
extern "C" void kernel(const float* a, const int64_t* a_shape, const float* b, const int64_t* b_shape, float* out,
                       const int64_t* out_shape) {
    const int64_t m = a_shape[0], k = a_shape[1], n = b_shape[1];
#pragma omp target teams distribute parallel for map(to : a[0 : m * k], b[0 : k * n]) map(from : out[0 : m * n])
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
            float sum = 0;
            for (int64_t p = 0; p < k; ++p) sum += a[i * k + p] * b[p * n + j];
            out[i * n + j] = sum;
        }
}
