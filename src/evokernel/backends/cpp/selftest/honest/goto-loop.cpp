// selftest: task=starter/sum_rows
// Loops without a loop statement.
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    const int64_t rows = x_shape[0], cols = x_shape[1];
    int64_t r = 0, c;
    float sum;
next_row:
    if (r == rows) goto done;
    sum = 0, c = 0;
next:
    if (c < cols) {
        sum += x[r * cols + c++];
        goto next;
    }
    out[r++] = sum;
    goto next_row;
done:;
}
