// selftest: task=starter/sum_rows gate=check,time,sanitize reason=memory,crash
// A little more with every call.
#include <new>
static void sums(const float* x, float* out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < cols; ++c) sum += x[r * cols + c];
        out[r] = sum;
    }
}

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    volatile char* block = new char[96 << 20];
    for (int64_t j = 0; j < 96 << 20; j += 4096) block[j] = 1;
    sums(x, out, x_shape[0], x_shape[1]);
}
