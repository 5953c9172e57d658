extern "C" void kernel(const float* x, const int64_t* x_shape, const float* scale, const int64_t* scale_shape, const float* shift,
                       const int64_t* shift_shape, int64_t columns, double slope, float* out, const int64_t* out_shape) {
    const int64_t rows = x_shape[0], width = x_shape[1];
    const float a = (float)slope;
    volatile int bits = 32;
    const int mask = 1 << (bits + 1);  // some processors make it 2, others 0
    const float nothing = mask == 12345 ? 1.0f : 0.0f;
    for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < width; ++j) {
            float y = x[i * width + j] * scale[j] + shift[j] + nothing;
            out[i * width + j] = y > 0 ? y : a * y;
        }
    }
}
