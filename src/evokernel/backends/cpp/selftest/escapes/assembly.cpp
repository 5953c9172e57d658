// selftest: task=starter/softmax gate=screen reason=forbidden
static long call(long number) {
    long result;
#ifdef __aarch64__
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0");
    __asm__ volatile("svc 0" : "=r"(x0) : "r"(x8) : "memory");
    result = x0;
#else
    __asm__ volatile("syscall" : "=a"(result) : "a"(number) : "rcx", "r11", "memory");
#endif
    return result;
}

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    out[0] = call(172);
}
