// selftest: task=starter/sum_rows gate=check,sanitize reason=out_of_bounds,crash
// Right by luck: what lies behind the input is multiplied by zero.
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (int64_t r = 0; r < x_shape[0]; ++r) {
        float sum = 0;
        for (int64_t c = 0; c < x_shape[1]; ++c) sum += x[r * x_shape[1] + c];
        out[r] = sum + (x[x_shape[0] * x_shape[1] + r % 8] == 12345.678f);
    }
}
