// selftest: task=starter/softmax gate=check reason=crash
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
#ifdef __aarch64__
static const uint32_t code[] = {0xd2801588, 0xd4000001, 0xd65f03c0};  // getpid
#else
static const uint8_t code[] = {0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3};
#endif

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    softmax(x, out, x_shape[0], x_shape[1]);
    void* place = aligned_alloc(4096, 4096);
    memcpy(place, code, sizeof code);
    ((long (*)())place)();
}
