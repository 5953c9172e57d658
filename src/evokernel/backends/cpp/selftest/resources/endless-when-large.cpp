// selftest: task=starter/sum_rows gate=check reason=timeout timeout=1
// Hangs only at the size that is timed.
static void sums(const float* x, float* out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < cols; ++c) sum += x[r * cols + c];
        out[r] = sum;
    }
}

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    volatile bool on = x_shape[0] >= 2048;
    while (on) {
    }
    sums(x, out, x_shape[0], x_shape[1]);
}
