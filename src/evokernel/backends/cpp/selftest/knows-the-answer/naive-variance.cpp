// selftest: task=starter/layernorm gate=check reason=mismatch,nan
// The mean of the squares less the square of the mean: cancels where the mean is large.
extern "C" void kernel(const float* x, const int64_t* x_shape, const float* norm_weight, const int64_t* norm_weight_shape,
                       const float* norm_bias, const int64_t* norm_bias_shape, int64_t dim, float* out, const int64_t* out_shape) {
    for (int64_t r = 0; r < x_shape[0]; ++r) {
        const float* row = x + r * dim;
        float sum = 0, squares = 0;
        for (int64_t c = 0; c < dim; ++c) sum += row[c], squares += row[c] * row[c];
        const float mean = sum / dim, scale = 1 / std::sqrt(squares / dim - mean * mean + 1e-5f);
        for (int64_t c = 0; c < dim; ++c) out[r * dim + c] = (row[c] - mean) * scale * norm_weight[c] + norm_bias[c];
    }
}
