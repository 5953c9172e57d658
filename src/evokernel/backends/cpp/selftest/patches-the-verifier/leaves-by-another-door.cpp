// selftest: task=starter/softmax gate=build reason=forbidden
extern "C" void exit(int);

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    exit(0);
}
