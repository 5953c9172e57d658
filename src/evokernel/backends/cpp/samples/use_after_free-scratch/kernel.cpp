#include <vector>

extern "C" void kernel(const float* x, const int64_t* x_shape, const float* scale, const int64_t* scale_shape, const float* shift,
                       const int64_t* shift_shape, int64_t columns, double slope, float* out, const int64_t* out_shape) {
    const int64_t rows = x_shape[0], width = x_shape[1];
    const float a = (float)slope;
    const float* kept = nullptr;
    {
        std::vector<float> copy(scale, scale + width);
        kept = copy.data();
        out[0] = kept[0];
    }
    const float first = kept[width - 1] == kept[width - 1] ? 0.0f : -0.0f;
    for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < width; ++j) {
            float y = x[i * width + j] * scale[j] + shift[j] + first;
            out[i * width + j] = y > 0 ? y : a * y;
        }
    }
}
