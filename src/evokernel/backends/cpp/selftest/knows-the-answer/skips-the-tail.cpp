// selftest: task=starter/gelu gate=check reason=unwritten
// Whole blocks of eight rows only.
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    const int64_t count = x_shape[0] / 8 * 8 * x_shape[1];
    for (int64_t i = 0; i < count; ++i) {
        const float y = x[i];
        out[i] = 0.5f * y * (1 + std::tanh(0.7978845608f * (y + 0.044715f * y * y * y)));
    }
}
