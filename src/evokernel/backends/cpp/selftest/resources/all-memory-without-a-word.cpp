// selftest: task=starter/softmax gate=check reason=crash,memory
// Does not look at what it was given.
#include <cstdlib>

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    volatile char* block = (volatile char*)malloc(1ull << 40);
    for (int64_t j = 0; j < 1ll << 40; j += 4096) block[j] = 1;
}
