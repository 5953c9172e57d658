// selftest: task=starter/argmax
// Atomics whose order does not matter: the larger value, then the smaller index, as one whole number.
__global__ void offer(const float* x, unsigned long long* keys, int64_t count, int64_t cols) {
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= count) return;
    const float value = x[i] == 0 ? 0.0f : x[i];  // both zeros are one
    const unsigned bits = __float_as_uint(value), ordered = bits >> 31 ? ~bits : bits | 0x80000000u;
    const unsigned long long place = 0xffffffffu - (unsigned)(i % cols);
    atomicMax(keys + i / cols, (unsigned long long)(value != value ? 0xffffffffu : ordered) << 32 | place);
}

__global__ void take(const unsigned long long* keys, int64_t* out, int64_t rows) {
    const int64_t r = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (r < rows) out[r] = 0xffffffffu - (unsigned)keys[r];
}

extern "C" void kernel(const float* x, const int64_t* x_shape, int64_t* out, const int64_t* out_shape, cudaStream_t stream) {
    const int64_t rows = x_shape[0], cols = x_shape[1], count = rows * cols;
    unsigned long long* keys = nullptr;
    cudaMallocAsync(&keys, rows * sizeof *keys, stream);
    cudaMemsetAsync(keys, 0, rows * sizeof *keys, stream);
    offer<<<(count + 255) / 256, 256, 0, stream>>>(x, keys, count, cols);
    take<<<(rows + 255) / 256, 256, 0, stream>>>(keys, out, rows);
    cudaFreeAsync(keys, stream);
}
