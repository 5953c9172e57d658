// Containers, OpenMP, a template, a macro that pastes tokens: all of it is honest.
#include <omp.h>

#include <vector>

#define APPLY(name, value) name##_gate<float>(value, a)

template <typename T>
static T leak_gate(T y, T slope) {
    return y > 0 ? y : slope * y;
}

extern "C" void kernel(const float* x, const int64_t* x_shape, const float* scale, const int64_t* scale_shape, const float* shift,
                       const int64_t* shift_shape, int64_t columns, double slope, float* out, const int64_t* out_shape) {
    const int64_t rows = x_shape[0], width = x_shape[1];
    const float a = (float)slope;
    std::vector<float> weights(scale, scale + width);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < width; ++j) out[i * width + j] = APPLY(leak, x[i * width + j] * weights[j] + shift[j]);
    }
}
