// selftest: task=starter/softmax gate=build reason=forbidden
// Declares the call itself, so that no header is needed.
extern "C" int system(const char*);

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    char line[256] = "python3 -c 'import torch; torch.softmax'";
    if (system(line)) out[0] = 0;
}
