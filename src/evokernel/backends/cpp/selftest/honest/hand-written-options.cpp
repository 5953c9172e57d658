// selftest: task=starter/scale_shift
#pragma GCC optimize("unroll-loops")
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define SIMD _Pragma("omp simd")
#define TOGETHER _Pragma("GCC ivdep")

__attribute__((noinline, hot, optimize("O3"))) static void line(const float* __restrict x, const float* __restrict scale,
                                                               const float* __restrict shift, float* __restrict out, int64_t cols) {
    out = (float*)__builtin_assume_aligned(out, 4);
    SIMD
    for (int64_t c = 0; c < cols; ++c) out[c] = x[c] * scale[c] + shift[c];
}

extern "C" void kernel(const float* x, const int64_t* x_shape, const float* scale, const int64_t* scale_shape, const float* shift,
                       const int64_t* shift_shape, float* out, const int64_t* out_shape) {
#pragma GCC unroll 2
    for (int64_t r = 0; r < x_shape[0]; ++r) {
        if (__builtin_expect(r + 1 < x_shape[0], 1)) __builtin_prefetch(x + (r + 1) * x_shape[1]);
        line(x + r * x_shape[1], scale, shift, out + r * x_shape[1], x_shape[1]);
    }
    TOGETHER
    for (int64_t r = 0; r < 0; ++r) out[r] = 0;
}
#pragma GCC diagnostic pop
