// Sums of floats arrive in any order, from blocks that share a row.
__device__ float gate(float y, float slope) { return y > 0 ? y : slope * y; }

__global__ void sums_kernel(const float* x, float* sums, int64_t width) {
    const int64_t j = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (j < width) atomicAdd(sums + blockIdx.y, fabsf(x[blockIdx.y * width + j]));
}

__global__ void elements_kernel(const float* x, const float* scale, const float* shift, const float* sums, float slope, float* out,
                                int64_t width) {
    for (int64_t j = threadIdx.x; j < width; j += blockDim.x) {
        const int64_t i = blockIdx.x * width + j;
        out[i] = gate(x[i] / (1 + sums[blockIdx.x] / width) * scale[j] + shift[j], slope);
    }
}

extern "C" void kernel(const float* x, const int64_t* x_shape, const float* scale, const int64_t* scale_shape, const float* shift,
                       const int64_t* shift_shape, int64_t columns, double slope, float* out, const int64_t* out_shape,
                       cudaStream_t stream) {
    const int64_t rows = x_shape[0], width = x_shape[1];
    float* sums = nullptr;
    cudaMallocAsync(&sums, rows * sizeof(float), stream);
    cudaMemsetAsync(sums, 0, rows * sizeof(float), stream);
    sums_kernel<<<dim3((width + 3) / 4, rows), 4, 0, stream>>>(x, sums, width);
    elements_kernel<<<rows, 256, 0, stream>>>(x, scale, shift, sums, (float)slope, out, width);
    cudaFreeAsync(sums, stream);
}
