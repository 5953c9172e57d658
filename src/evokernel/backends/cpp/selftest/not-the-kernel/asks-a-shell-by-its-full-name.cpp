// selftest: task=starter/softmax gate=screen reason=forbidden
#include <cstdlib>

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    std::system("python3 -c 'import torch; torch.softmax'");
}
