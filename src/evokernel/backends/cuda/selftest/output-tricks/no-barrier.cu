// selftest: task=starter/sum_rows gate=check reason=mismatch,nondeterministic,nan
// Threads read sums that others have not yet written.
__device__ float over_block(float value, bool is_sum) {  // of 256 threads
    __shared__ float parts[256];
    __syncthreads();
    if (threadIdx.x >= 32) __nanosleep(20000);
    ((volatile float*)parts)[threadIdx.x] = value;
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            const float other = parts[threadIdx.x + half];
            parts[threadIdx.x] = is_sum ? parts[threadIdx.x] + other : fmaxf(parts[threadIdx.x], other);
        }
    }
    return parts[0];
}

__global__ void sums(const float* x, float* out, int64_t cols) {
    float sum = 0;
    for (int64_t c = threadIdx.x; c < cols; c += 256) sum += x[blockIdx.x * cols + c];
    sum = over_block(sum, true);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape, cudaStream_t stream) {
    sums<<<x_shape[0], 256, 0, stream>>>(x, out, x_shape[1]);
}
