// selftest: task=starter/scale_shift gate=check reason=mismatch
extern "C" void kernel(const float* x, const int64_t* x_shape, const float* scale, const int64_t* scale_shape, const float* shift,
                       const int64_t* shift_shape, float* out, const int64_t* out_shape) {
    for (int64_t r = 0; r < x_shape[0]; ++r)
        for (int64_t c = 0; c < x_shape[1]; ++c) out[r * x_shape[1] + c] = x[r * x_shape[1] + c] * scale[c];
}
