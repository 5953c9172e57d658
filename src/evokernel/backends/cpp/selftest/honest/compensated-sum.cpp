// selftest: task=starter/softmax
// Kahan's sum; the compiler may not see through it without -ffast-math.
static float compensated(const float* x, int64_t count) {
    float sum = 0, lost = 0;
    for (int64_t i = 0; i < count; ++i) {
        const float next = x[i] - lost, total = sum + next;
        lost = (total - sum) - next;
        sum = total;
    }
    return sum;
}

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    const int64_t cols = x_shape[1];
    for (int64_t r = 0; r < x_shape[0]; ++r) {
        const float* row = x + r * cols;
        float *to = out + r * cols, most = row[0];
        for (int64_t c = 1; c < cols; ++c) most = std::max(most, row[c]);
        for (int64_t c = 0; c < cols; ++c) to[c] = std::exp(row[c] - most);
        const float sum = compensated(to, cols);
        for (int64_t c = 0; c < cols; ++c) to[c] /= sum;
    }
}
