extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    int64_t i = 0;
    for (; i + 4 <= x_shape[0]; i += 4)
        for (int k = 0; k < 4; ++k) out[i + k] = x[i + k] + x[i + k];
    for (; i < x_shape[0]; ++i) out[i] = x[i] + x[i];
}
