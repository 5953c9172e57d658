// selftest: task=starter/rmsnorm
// Everything of OpenMP that a kernel may use.
#include <omp.h>
#pragma omp declare simd
static inline float square(float value) { return value * value; }

extern "C" void kernel(const float* x, const int64_t* x_shape, const float* weight, const int64_t* weight_shape, int64_t dim, double eps,
                       float* out, const int64_t* out_shape) {
    const int64_t rows = x_shape[0];
#pragma omp parallel if (rows * dim > 4096) num_threads(omp_get_max_threads())
    {
#pragma omp for schedule(dynamic, 8) nowait
        for (int64_t r = 0; r < rows; ++r) {
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t c = 0; c < dim; ++c) sum += square(x[r * dim + c]);
            const float scale = 1.0f / std::sqrt(sum / dim + (float)eps);
#pragma omp simd
            for (int64_t c = 0; c < dim; ++c) out[r * dim + c] = x[r * dim + c] * scale * weight[c];
        }
#pragma omp barrier
#pragma omp single
        {
#pragma omp task
            if (omp_in_parallel() && rows < 0) out[0] = 0;
        }
    }
}
