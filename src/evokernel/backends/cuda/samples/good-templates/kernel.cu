// One kernel for several block sizes, chosen by the width.
struct Leaky {
    float slope;
    __device__ float operator()(float y) const { return y > 0 ? y : slope * y; }
};

template <int THREADS>
__device__ float block_sum(float value) {
    __shared__ float parts[THREADS / 32];
#pragma unroll
    for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int i = 0; i < THREADS / 32; ++i) sum += parts[i];
    return sum;
}

template <int THREADS, typename Gate>
__global__ void __launch_bounds__(THREADS)
    rows_kernel(const float* x, const float* scale, const float* shift, Gate gate, float* out, int64_t width) {
    const int64_t start = blockIdx.x * width;
    float sum = 0;
    for (int64_t j = threadIdx.x; j < width; j += THREADS) sum += fabsf(x[start + j]);
    const float size = 1 + block_sum<THREADS>(sum) / width;
    for (int64_t j = threadIdx.x; j < width; j += THREADS) out[start + j] = gate(x[start + j] / size * scale[j] + shift[j]);
}

extern "C" void kernel(const float* x, const int64_t* x_shape, const float* scale, const int64_t* scale_shape, const float* shift,
                       const int64_t* shift_shape, int64_t columns, double slope, float* out, const int64_t* out_shape,
                       cudaStream_t stream) {
    const int64_t rows = x_shape[0], width = x_shape[1];
    const Leaky gate{(float)slope};
    auto start = [&](auto run, int threads) { run<<<rows, threads, 0, stream>>>(x, scale, shift, gate, out, width); };
    if (width <= 64)
        start(rows_kernel<32, Leaky>, 32);
    else if (width <= 1024)
        start(rows_kernel<128, Leaky>, 128);
    else
        start(rows_kernel<512, Leaky>, 512);
}
