// Sizes of rows first, into scratch that is set before; then every element by itself.
__device__ float gate(float y, float slope) { return y > 0 ? y : slope * y; }

__global__ void sizes_kernel(const float* x, float* sizes, int64_t width) {
    __shared__ float parts[128];
    float sum = 0;
    for (int64_t j = threadIdx.x; j < width; j += 128) sum += fabsf(x[blockIdx.x * width + j]);
    parts[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 128; ++i) sum += parts[i];
        sizes[blockIdx.x] += sum / width;
    }
}

__global__ void elements_kernel(const float* x, const float* scale, const float* shift, const float* sizes, float slope, float* out,
                                int64_t count, int64_t width) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const int64_t r = i / width, j = i - r * width;
        out[i] = gate(x[i] / (1 + sizes[r]) * scale[j] + shift[j], slope);
    }
}

extern "C" void kernel(const float* x, const int64_t* x_shape, const float* scale, const int64_t* scale_shape, const float* shift,
                       const int64_t* shift_shape, int64_t columns, double slope, float* out, const int64_t* out_shape,
                       cudaStream_t stream) {
    const int64_t rows = x_shape[0], width = x_shape[1], count = rows * width;
    float* sizes = nullptr;
    cudaMallocAsync(&sizes, rows * sizeof(float), stream);
    cudaMemsetAsync(sizes, 0, rows * sizeof(float), stream);
    sizes_kernel<<<rows, 128, 0, stream>>>(x, sizes, width);
    elements_kernel<<<(count + 255) / 256 < 1024 ? (count + 255) / 256 : 1024, 256, 0, stream>>>(x, scale, shift, sizes, (float)slope, out,
                                                                                                count, width);
    cudaFreeAsync(sizes, stream);
}
