// selftest: task=starter/sum_rows
// Pairwise summation, by recursion.
static float pairwise(const float* x, int64_t count) {
    if (count <= 32) {
        float sum = 0;
        for (int64_t i = 0; i < count; ++i) sum += x[i];
        return sum;
    }
    return pairwise(x, count / 2) + pairwise(x + count / 2, count - count / 2);
}

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (int64_t r = 0; r < x_shape[0]; ++r) out[r] = pairwise(x + r * x_shape[1], x_shape[1]);
}
