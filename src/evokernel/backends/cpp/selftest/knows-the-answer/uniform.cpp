// selftest: task=starter/softmax gate=check reason=mismatch
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (int64_t i = 0; i < x_shape[0] * x_shape[1]; ++i) out[i] = 1.0f / x_shape[1];
}
