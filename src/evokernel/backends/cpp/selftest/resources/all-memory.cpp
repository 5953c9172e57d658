// selftest: task=starter/softmax gate=check reason=memory
#include <new>

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (int64_t i = 0;; ++i) {
        volatile char* block = new char[64 << 20];
        for (int64_t j = 0; j < 64 << 20; j += 4096) block[j] = 1;
        out[0] = block[4096];
    }
}
