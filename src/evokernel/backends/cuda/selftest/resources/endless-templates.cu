// selftest: task=starter/softmax gate=build reason=compile_error,build_timeout,memory backend.build_timeout_s=30
// The compiler is to count for ever.
template <int N>
struct Next {
    static constexpr int value = Next<N + 1>::value;
};

__global__ void count(float* out) { out[0] = Next<0>::value; }

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape, cudaStream_t stream) {
    count<<<1, 1, 0, stream>>>(out);
}
