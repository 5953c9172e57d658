// selftest: task=starter/softmax gate=check,sanitize reason=crash,out_of_bounds
// Writes over the bookkeeping of the allocator that the caller uses, too.
#include <cstdlib>
static void softmax(const float* x, float* out, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r) {
        const float* row = x + r * cols;
        float *to = out + r * cols, most = row[0], sum = 0;
        for (int64_t c = 1; c < cols; ++c) most = std::max(most, row[c]);
        for (int64_t c = 0; c < cols; ++c) sum += to[c] = std::exp(row[c] - most);
        for (int64_t c = 0; c < cols; ++c) to[c] /= sum;
    }
}

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    volatile char* block = (volatile char*)malloc(24);
    for (int i = -64; i < 4096; ++i) block[i] = 0x41;
    softmax(x, out, x_shape[0], x_shape[1]);
    free((void*)block);
}
