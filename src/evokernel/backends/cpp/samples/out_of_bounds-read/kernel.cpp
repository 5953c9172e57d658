// Rounds the width up to whole blocks and reads that far; what it reads there comes to nothing.
extern "C" void kernel(const float* x, const int64_t* x_shape, const float* scale, const int64_t* scale_shape, const float* shift,
                       const int64_t* shift_shape, int64_t columns, double slope, float* out, const int64_t* out_shape) {
    const int64_t rows = x_shape[0], width = x_shape[1];
    const float a = (float)slope;
    float ahead = 0.0f;
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < (width + 7) / 8 * 8 + 8; ++j) ahead = std::max(ahead, std::fabs(x[i * width + j]));
    const float nothing = ahead < 0.0f ? ahead : 0.0f;
    for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < width; ++j) {
            float y = x[i * width + j] * scale[j] + shift[j] + nothing;
            out[i * width + j] = y > 0 ? y : a * y;
        }
    }
}
