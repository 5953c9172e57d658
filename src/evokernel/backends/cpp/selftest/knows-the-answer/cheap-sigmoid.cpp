// selftest: task=starter/gelu gate=check reason=mismatch
// The quick form of GELU, about a hundredth off.
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (int64_t i = 0; i < x_shape[0] * x_shape[1]; ++i) out[i] = x[i] / (1 + std::exp(-1.702f * x[i]));
}
