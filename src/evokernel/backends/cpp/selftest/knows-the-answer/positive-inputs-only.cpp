// selftest: task=starter/gelu gate=check reason=mismatch
// Takes whatever is negative for nothing, as a rectifier would.
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (int64_t i = 0; i < x_shape[0] * x_shape[1]; ++i) out[i] = std::max(x[i], 0.0f);
}
