// selftest: task=starter/sum_rows
// One after the other, from the end, in double precision.
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    int64_t r = x_shape[0];
    while (r-- > 0) {
        double sum = 0;
        for (int64_t c = x_shape[1]; c-- > 0;) sum += x[r * x_shape[1] + c];
        out[r] = static_cast<float>(sum);
    }
}
