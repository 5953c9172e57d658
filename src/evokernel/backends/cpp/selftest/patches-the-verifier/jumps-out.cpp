// selftest: task=starter/softmax gate=screen reason=forbidden
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    void* place[5];
    if (!__builtin_setjmp(place)) __builtin_longjmp(place, 1);
}
