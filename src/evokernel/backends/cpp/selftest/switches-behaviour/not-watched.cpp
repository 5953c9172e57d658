// selftest: task=starter/sum_rows gate=screen reason=forbidden
// Has itself left out of the instrumented build.
static void sums(const float* x, float* out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < cols; ++c) sum += x[r * cols + c];
        out[r] = sum;
    }
}

__attribute__((no_sanitize("address"))) static float peek(const float* x, int64_t count) {
    return 0 * x[count + 63];
}

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    sums(x, out, x_shape[0], x_shape[1]);
    out[0] += peek(x, x_shape[0] * x_shape[1]);
}
