// selftest: task=starter/softmax gate=build reason=build_timeout,memory,compile_error backend.build_timeout_s=1
constexpr unsigned walk(unsigned long long steps) {
    unsigned state = 1;
    for (unsigned long long i = 0; i < steps; ++i)
        for (unsigned long long j = 0; j < 200000; ++j) state = state * 1664525u + 1013904223u;
    return state;
}
constexpr unsigned found = walk(1ull << 60);

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    out[0] = found;
}
