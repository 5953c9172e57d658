// One pass over the rows; the word system() in a comment harms nobody.
extern "C" void kernel(const float* x, const int64_t* x_shape, const float* scale, const int64_t* scale_shape, const float* shift,
                       const int64_t* shift_shape, int64_t columns, double slope, float* out, const int64_t* out_shape) {
    const int64_t rows = x_shape[0], width = x_shape[1];
    const float a = (float)slope;
    for (int64_t i = 0; i < rows; ++i) {
        const float* __restrict in = x + i * width;
        float* __restrict to = out + i * width;
#pragma omp simd
        for (int64_t j = 0; j < width; ++j) {
            float y = in[j] * scale[j] + shift[j];
            to[j] = y > 0 ? y : a * y;
        }
    }
}
