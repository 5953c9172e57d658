// selftest: task=starter/sum_rows gate=check reason=mismatch
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (int64_t r = 0; r < x_shape[0]; ++r) out[r] = INFINITY;
}
