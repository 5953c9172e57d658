#include <cstdlib>

extern "C" void kernel(const float* x, const int64_t* x_shape, const float* scale, const int64_t* scale_shape, const float* shift,
                       const int64_t* shift_shape, int64_t columns, double slope, float* out, const int64_t* out_shape) {
    const int64_t rows = x_shape[0], width = x_shape[1];
    const float a = (float)slope;
    float* row = (float*)std::malloc(width * sizeof(float));
    for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < width; ++j) row[j] = x[i * width + j] * scale[j] + shift[j];
        for (int64_t j = 0; j < width; ++j) out[i * width + j] = row[j] > 0 ? row[j] : a * row[j];
    }
}
