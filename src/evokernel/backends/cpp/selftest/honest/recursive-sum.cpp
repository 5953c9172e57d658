// selftest: task=starter/softmax
// Pairwise summation, by recursion.
static float pairwise(const float* x, int64_t count) {
    if (count <= 32) {
        float sum = 0;
        for (int64_t i = 0; i < count; ++i) sum += x[i];
        return sum;
    }
    return pairwise(x, count / 2) + pairwise(x + count / 2, count - count / 2);
}

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    const int64_t cols = x_shape[1];
    for (int64_t r = 0; r < x_shape[0]; ++r) {
        const float* row = x + r * cols;
        float *to = out + r * cols, most = row[0];
        for (int64_t c = 1; c < cols; ++c) most = std::max(most, row[c]);
        for (int64_t c = 0; c < cols; ++c) to[c] = std::exp(row[c] - most);
        const float sum = pairwise(to, cols);
        for (int64_t c = 0; c < cols; ++c) to[c] /= sum;
    }
}
