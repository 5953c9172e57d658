// selftest: task=starter/layernorm
// Mean and variance in one pass that does not cancel.
extern "C" void kernel(const float* x, const int64_t* x_shape, const float* norm_weight, const int64_t* norm_weight_shape,
                       const float* norm_bias, const int64_t* norm_bias_shape, int64_t dim, float* out, const int64_t* out_shape) {
    for (int64_t r = 0; r < x_shape[0]; ++r) {
        const float* row = x + r * dim;
        float mean = 0, spread = 0;
        for (int64_t c = 0; c < dim; ++c) {
            const float apart = row[c] - mean;
            mean += apart / (float)(c + 1);
            spread += apart * (row[c] - mean);
        }
        const float scale = 1.0f / std::sqrt(spread / (float)dim + 1e-5f);
        for (int64_t c = 0; c < dim; ++c) out[r * dim + c] = (row[c] - mean) * scale * norm_weight[c] + norm_bias[c];
    }
}
