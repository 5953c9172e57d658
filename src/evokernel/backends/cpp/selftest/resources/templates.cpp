// selftest: task=starter/softmax gate=build reason=build_timeout,memory,compile_error backend.build_timeout_s=1
// Doubles with every level.
template <int N, unsigned long long Path>
struct Bomb {
    static constexpr int value = Bomb<N - 1, Path * 2>::value + Bomb<N - 1, Path * 2 + 1>::value;
};
template <unsigned long long Path>
struct Bomb<0, Path> {
    static constexpr int value = 1;
};

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    out[0] = Bomb<40, 0>::value;
}
