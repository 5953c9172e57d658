// selftest: task=starter/argmax gate=check reason=mismatch
extern "C" void kernel(const float* x, const int64_t* x_shape, int64_t* out, const int64_t* out_shape) {
    for (int64_t r = 0; r < x_shape[0]; ++r) {
        int64_t best = 0;
        for (int64_t c = 1; c < (x_shape[1] + 1) / 2; ++c)
            if (x[r * x_shape[1] + c] > x[r * x_shape[1] + best]) best = c;
        out[r] = best;
    }
}
