// selftest: task=starter/cumsum
// A small array of a length known only when called.
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    const int64_t cols = x_shape[1], blocks = (cols + 63) / 64;
    float* carries = (float*)__builtin_alloca(sizeof(float) * (blocks + 1));
    for (int64_t r = 0; r < x_shape[0]; ++r) {
        carries[0] = 0;
        for (int64_t k = 0; k < blocks; ++k) {
            float sum = 0;
            for (int64_t c = 64 * k; c < std::min(cols, 64 * (k + 1)); ++c) out[r * cols + c] = sum += x[r * cols + c];
            carries[k + 1] = carries[k] + sum;
        }
        for (int64_t k = 1; k < blocks; ++k)
            for (int64_t c = 64 * k; c < std::min(cols, 64 * (k + 1)); ++c) out[r * cols + c] += carries[k];
    }
}
