// selftest: task=starter/softmax gate=build reason=compile_error
template <int N>
struct Next {
    static constexpr int value = Next<N + 1>::value;
};

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    out[0] = Next<0>::value;
}
