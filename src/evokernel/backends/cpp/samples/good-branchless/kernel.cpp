// No branch in the inner loop, so that it vectorises.
extern "C" void kernel(const float* x, const int64_t* x_shape, const float* scale, const int64_t* scale_shape, const float* shift,
                       const int64_t* shift_shape, int64_t columns, double slope, float* out, const int64_t* out_shape) {
    const int64_t rows = x_shape[0], width = x_shape[1];
    const float a = (float)slope;
    for (int64_t i = 0; i < rows; ++i) {
        const float* __restrict in = x + i * width;
        float* __restrict to = out + i * width;
        for (int64_t j = 0; j < width; ++j) {
            float y = in[j] * scale[j] + shift[j];
            to[j] = std::max(y, 0.0f) + a * std::min(y, 0.0f);
        }
    }
}
