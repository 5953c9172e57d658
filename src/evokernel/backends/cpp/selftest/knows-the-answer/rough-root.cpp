// selftest: task=starter/rmsnorm gate=check reason=mismatch
// The well-known constant, without the step that mends it.
extern "C" void kernel(const float* x, const int64_t* x_shape, const float* weight, const int64_t* weight_shape, int64_t dim, double eps,
                       float* out, const int64_t* out_shape) {
    for (int64_t r = 0; r < x_shape[0]; ++r) {
        const float* row = x + r * dim;
        float squares = 0;
        for (int64_t c = 0; c < dim; ++c) squares += row[c] * row[c];
        float scale = squares / dim + (float)eps;
        uint32_t bits;
        memcpy(&bits, &scale, 4);
        bits = 0x5f3759df - (bits >> 1);
        memcpy(&scale, &bits, 4);
        for (int64_t c = 0; c < dim; ++c) out[r * dim + c] = row[c] * scale * weight[c];
    }
}
