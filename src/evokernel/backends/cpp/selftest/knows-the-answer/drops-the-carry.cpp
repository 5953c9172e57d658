// selftest: task=starter/cumsum gate=check reason=mismatch
// Every block of 64 starts anew.
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (int64_t r = 0; r < x_shape[0]; ++r) {
        float sum = 0;
        for (int64_t c = 0; c < x_shape[1]; ++c) {
            if (c % 64 == 0) sum = 0;
            out[r * x_shape[1] + c] = sum += x[r * x_shape[1] + c];
        }
    }
}
