// selftest: task=starter/softmax
// Virtual functions, recursion and lambdas on the device.
struct Step {
    __device__ virtual float of(float a, float b) const = 0;
};
struct Larger : Step {
    __device__ float of(float a, float b) const override { return fmaxf(a, b); }
};
struct Both : Step {
    __device__ float of(float a, float b) const override { return a + b; }
};

__device__ __noinline__ float folded(const float* parts, int count, const Step& step) {
    return count == 1 ? parts[0] : step.of(folded(parts, count / 2, step), folded(parts + count / 2, count - count / 2, step));
}

__device__ float over_block(float value, const Step& step) {
    __shared__ float parts[64];
    __syncthreads();
    parts[threadIdx.x] = value;
    __syncthreads();
    return folded(parts, 64, step);
}

template <typename F>
__device__ void each(int64_t cols, F f) {
    for (int64_t c = threadIdx.x; c < cols; c += 64) f(c);
}

__global__ void softmax(const float* x, float* out, int64_t cols) {
    const float* row = x + blockIdx.x * cols;
    float most = -INFINITY, sum = 0;
    each(cols, [&](int64_t c) { most = fmaxf(most, row[c]); });
    most = over_block(most, Larger());
    each(cols, [&](int64_t c) { sum += expf(row[c] - most); });
    sum = over_block(sum, Both());
    each(cols, [&](int64_t c) { out[blockIdx.x * cols + c] = expf(row[c] - most) / sum; });
}

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape, cudaStream_t stream) {
    softmax<<<x_shape[0], 64, 0, stream>>>(x, out, x_shape[1]);
}
