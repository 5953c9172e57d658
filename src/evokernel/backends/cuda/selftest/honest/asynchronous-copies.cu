// selftest: task=starter/sum_rows
// Copies past the registers, 4 bytes at a time, two pieces under way.
#include <cuda_pipeline.h>

__device__ float over_block(float value, bool is_sum) {  // of 256 threads
    __shared__ float parts[256];
    __syncthreads();
    parts[threadIdx.x] = value;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            const float other = parts[threadIdx.x + half];
            parts[threadIdx.x] = is_sum ? parts[threadIdx.x] + other : fmaxf(parts[threadIdx.x], other);
        }
        __syncthreads();
    }
    return parts[0];
}

__global__ void sums(const float* x, float* out, int64_t cols) {
    __shared__ float buffer[2][256];
    const float* row = x + blockIdx.x * cols;
    const int64_t pieces = (cols + 255) / 256;
    const auto start = [&](int64_t piece) {
        const int64_t c = piece * 256 + threadIdx.x;
        if (c < cols) __pipeline_memcpy_async(&buffer[piece % 2][threadIdx.x], row + c, 4);
        __pipeline_commit();
    };
    float sum = 0;
    start(0);
    for (int64_t piece = 0; piece < pieces; ++piece) {
        start(piece + 1);
        __pipeline_wait_prior(1);
        if (piece * 256 + threadIdx.x < cols) sum += buffer[piece % 2][threadIdx.x];  // each thread reads its own only
    }
    sum = over_block(sum, true);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape, cudaStream_t stream) {
    sums<<<x_shape[0], 256, 0, stream>>>(x, out, x_shape[1]);
}
