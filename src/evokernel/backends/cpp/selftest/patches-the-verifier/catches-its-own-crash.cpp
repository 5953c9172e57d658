// selftest: task=starter/softmax gate=screen reason=forbidden
extern "C" void (*signal(int, void (*)(int)))(int);
static void ignore(int) {}

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    ::signal(11, ignore);
    out[1 << 30] = 0;
}
