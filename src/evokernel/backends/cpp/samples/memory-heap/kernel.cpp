#include <vector>

extern "C" void kernel(const float* x, const int64_t* x_shape, const float* scale, const int64_t* scale_shape, const float* shift,
                       const int64_t* shift_shape, int64_t columns, double slope, float* out, const int64_t* out_shape) {
    const int64_t rows = x_shape[0], width = x_shape[1];
    const float a = (float)slope;
    std::vector<float> scratch((size_t)1 << 38);
    for (int64_t i = 0; i < rows * width; ++i) scratch[i] = x[i] * scale[i % width] + shift[i % width];
    for (int64_t i = 0; i < rows * width; ++i) out[i] = scratch[i] > 0 ? scratch[i] : a * scratch[i];
}
