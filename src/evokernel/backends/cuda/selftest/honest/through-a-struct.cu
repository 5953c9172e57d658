// selftest: task=starter/softmax
// Pointers inside of a struct, copies between tensors, and a memset that is not needed.
struct Work {
    int64_t cols;
    const float* from;
    float* to;
};

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

__global__ void softmax(Work work) {
    const float* x = work.from;
    float* out = work.to;
    const int64_t cols = work.cols;
    const float* row = x + blockIdx.x * cols;
    float most = -INFINITY, sum = 0;
    for (int64_t c = threadIdx.x; c < cols; c += 256) most = fmaxf(most, row[c]);
    most = over_block(most, false);
    for (int64_t c = threadIdx.x; c < cols; c += 256) sum += expf(row[c] - most);
    sum = over_block(sum, true);
    for (int64_t c = threadIdx.x; c < cols; c += 256) out[blockIdx.x * cols + c] = expf(row[c] - most) / sum;
}

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape, cudaStream_t stream) {
    const size_t bytes = x_shape[0] * x_shape[1] * sizeof(float);
    float *from = nullptr, *to = nullptr;
    cudaMallocAsync(&from, bytes, stream);
    cudaMallocAsync(&to, bytes, stream);
    cudaMemcpyAsync(from, x, bytes, cudaMemcpyDeviceToDevice, stream);
    cudaMemsetAsync(to, 0, bytes, stream);
    softmax<<<x_shape[0], 256, 0, stream>>>(Work{x_shape[1], from, to});
    cudaMemcpyAsync(out, to, bytes, cudaMemcpyDeviceToDevice, stream);
    cudaFreeAsync(from, stream);
    cudaFreeAsync(to, stream);
}
