// selftest: task=starter/softmax gate=screen reason=forbidden
#include <cstdio>

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    FILE* pipe = popen("python3 -c 'import torch; torch.softmax'", "r");
    fread(out, 4, x_shape[0] * x_shape[1], pipe);
    pclose(pipe);
}
