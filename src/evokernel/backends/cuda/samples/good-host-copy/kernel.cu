// A number from the host is copied into the output, which is written again afterwards.
__device__ float gate(float y, float slope) { return y > 0 ? y : slope * y; }

// The sum over a block of 256 threads; every thread gets it.
__device__ float block_sum(float value) {
    __shared__ float parts[256];
    parts[threadIdx.x] = value;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    return parts[0];
}

__global__ void rows_kernel(const float* x, const float* scale, const float* shift, float slope, float* out, int64_t width) {
    const float* row = x + blockIdx.x * width;
    float sum = 0;
    for (int64_t j = threadIdx.x; j < width; j += blockDim.x) sum += fabsf(row[j]);
    const float size = 1 + block_sum(sum) / width;
    for (int64_t j = threadIdx.x; j < width; j += blockDim.x) out[blockIdx.x * width + j] = gate(row[j] / size * scale[j] + shift[j], slope);
}

extern "C" void kernel(const float* x, const int64_t* x_shape, const float* scale, const int64_t* scale_shape, const float* shift,
                       const int64_t* shift_shape, int64_t columns, double slope, float* out, const int64_t* out_shape,
                       cudaStream_t stream) {
    const float value = 1.0f;
    cudaMemcpyAsync(out, &value, sizeof value, cudaMemcpyHostToDevice, stream);
    rows_kernel<<<x_shape[0], 256, 0, stream>>>(x, scale, shift, (float)slope, out, x_shape[1]);
}
