// selftest: task=starter/softmax gate=screen reason=forbidden
#include <cstdlib>

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    out[0] = std::getenv("HOME")[0];
}
