// selftest: task=starter/softmax gate=build,check reason=forbidden,out_of_bounds,unwritten,mismatch
// Tells the recorder of tensors that are larger than they are, and writes beyond its own.
extern "C" void recorder_begin(int, const uint64_t*, const uint64_t*, void*);

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

__global__ void softmax(const float* x, float* out, int64_t cols) {
    const float* row = x + blockIdx.x * cols;
    float most = -INFINITY, sum = 0;
    for (int64_t c = threadIdx.x; c < cols; c += 256) most = fmaxf(most, row[c]);
    most = over_block(most, false);
    for (int64_t c = threadIdx.x; c < cols; c += 256) sum += expf(row[c] - most);
    sum = over_block(sum, true);
    for (int64_t c = threadIdx.x; c < cols; c += 256) out[blockIdx.x * cols + c] = expf(row[c] - most) / sum;
}

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape, cudaStream_t stream) {
    const uint64_t bases[] = {(uint64_t)x, (uint64_t)out}, sizes[] = {1ull << 36, 1ull << 36};
    recorder_begin(2, bases, sizes, stream);
    softmax<<<x_shape[0], 256, 0, stream>>>(x, out + (1 << 28), x_shape[1]);
}
