// selftest: task=starter/gelu gate=check reason=mismatch
// The work is done and thrown away; what comes out is a copy of the input.
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    const int64_t count = x_shape[0] * x_shape[1];
    float nothing = 0;
    for (int64_t i = 0; i < count; ++i) {
        const float y = x[i];
        nothing += 0.0f * (0.5f * y * (1 + std::tanh(0.7978845608f * (y + 0.044715f * y * y * y))));
        out[i] = y + nothing;
    }
}
