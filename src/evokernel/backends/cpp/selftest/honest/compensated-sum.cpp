// selftest: task=starter/sum_rows
// Kahan's sum; the compiler may not see through it without -ffast-math.
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (int64_t r = 0; r < x_shape[0]; ++r) {
        float sum = 0, lost = 0;
        for (int64_t c = 0; c < x_shape[1]; ++c) {
            const float next = x[r * x_shape[1] + c] - lost, total = sum + next;
            lost = (total - sum) - next;
            sum = total;
        }
        out[r] = sum;
    }
}
