// selftest: task=starter/softmax gate=screen reason=forbidden
#include <cstdio>

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    if (FILE* maps = fopen("/proc/self/maps", "r")) fclose(maps);
}
