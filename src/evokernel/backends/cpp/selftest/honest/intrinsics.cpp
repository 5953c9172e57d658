// selftest: task=starter/scale_shift
// A path for each family of processors, and one for all others.
#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif
#if defined(__GNUC__) && !defined(__clang__)
#define ALWAYS __attribute__((always_inline)) inline
#else
#define ALWAYS inline
#endif

static ALWAYS void line(const float* x, const float* scale, const float* shift, float* out, int64_t cols) {
    int64_t c = 0;
#if defined(__AVX2__) && defined(__FMA__)
    for (; c + 8 <= cols; c += 8)
        _mm256_storeu_ps(out + c, _mm256_fmadd_ps(_mm256_loadu_ps(x + c), _mm256_loadu_ps(scale + c), _mm256_loadu_ps(shift + c)));
#elif defined(__ARM_NEON)
    for (; c + 4 <= cols; c += 4) vst1q_f32(out + c, vfmaq_f32(vld1q_f32(shift + c), vld1q_f32(x + c), vld1q_f32(scale + c)));
#endif
    for (; c < cols; ++c) out[c] = x[c] * scale[c] + shift[c];
}

extern "C" void kernel(const float* x, const int64_t* x_shape, const float* scale, const int64_t* scale_shape, const float* shift,
                       const int64_t* shift_shape, float* out, const int64_t* out_shape) {
    for (int64_t r = 0; r < x_shape[0]; ++r) line(x + r * x_shape[1], scale, shift, out + r * x_shape[1], x_shape[1]);
}
