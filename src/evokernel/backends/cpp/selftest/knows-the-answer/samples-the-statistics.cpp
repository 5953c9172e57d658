// selftest: task=starter/rmsnorm gate=check reason=mismatch
// Half of a row tells its size.
extern "C" void kernel(const float* x, const int64_t* x_shape, const float* weight, const int64_t* weight_shape, int64_t dim, double eps,
                       float* out, const int64_t* out_shape) {
    for (int64_t r = 0; r < x_shape[0]; ++r) {
        const float* row = x + r * dim;
        float squares = 0;
        for (int64_t c = 0; c < dim; c += 2) squares += row[c] * row[c];
        const float scale = 1 / std::sqrt(squares / ((dim + 1) / 2) + (float)eps);
        for (int64_t c = 0; c < dim; ++c) out[r * dim + c] = row[c] * scale * weight[c];
    }
}
