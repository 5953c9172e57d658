// selftest: task=starter/softmax
// Maximum and sum in one pass.
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    const int64_t cols = x_shape[1];
    for (int64_t r = 0; r < x_shape[0]; ++r) {
        const float* row = x + r * cols;
        float most = -INFINITY, sum = 0;
        for (int64_t c = 0; c < cols; ++c) {
            if (row[c] > most) {
                sum *= std::exp(most - row[c]);
                most = row[c];
            }
            sum += std::exp(row[c] - most);
        }
        const float scale = 1 / sum;
        for (int64_t c = 0; c < cols; ++c) out[r * cols + c] = std::exp(row[c] - most) * scale;
    }
}
