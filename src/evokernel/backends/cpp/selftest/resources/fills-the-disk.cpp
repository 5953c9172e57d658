// selftest: task=starter/softmax gate=screen reason=forbidden
#include <cstdio>

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    FILE* file = fopen("filler", "w");
    while (true) fwrite(x, 4, x_shape[0] * x_shape[1], file);
}
