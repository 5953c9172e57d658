extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (int64_t i = 0; i < (1LL << 32); i += 512) out[i] = 0;
}
