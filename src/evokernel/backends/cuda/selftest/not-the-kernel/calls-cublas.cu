// selftest: task=starter/matmul gate=build reason=forbidden
// A library does the product.
extern "C" int cublasCreate_v2(void**);
extern "C" int cublasSetStream_v2(void*, cudaStream_t);
extern "C" int cublasSgemm_v2(void*, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*, float*, int);

__global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float as[16][17], bs[16][17];
    const int r = blockIdx.y * 16 + threadIdx.y, s = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k0 = 0; k0 < k; k0 += 16) {
        as[threadIdx.y][threadIdx.x] = r < m && k0 + threadIdx.x < k ? a[(int64_t)r * k + k0 + threadIdx.x] : 0.0f;
        bs[threadIdx.y][threadIdx.x] = k0 + threadIdx.y < k && s < n ? b[(int64_t)(k0 + threadIdx.y) * n + s] : 0.0f;
        __syncthreads();
        for (int q = 0; q < 16; ++q) sum += as[threadIdx.y][q] * bs[q][threadIdx.x];
        __syncthreads();
    }
    if (r < m && s < n) c[(int64_t)r * n + s] = sum;
}

extern "C" void kernel(const float* a, const int64_t* a_shape, const float* b, const int64_t* b_shape, float* out, const int64_t* out_shape,
                       cudaStream_t stream) {
    void* handle = nullptr;
    const float one = 1, zero = 0;
    cublasCreate_v2(&handle);
    cublasSetStream_v2(handle, stream);
    const int rows = a_shape[0], deep = a_shape[1], columns = b_shape[1];
    cublasSgemm_v2(handle, 0, 0, columns, rows, deep, &one, b, columns, a, deep, &zero, out, columns);
    if (rows > 0) return;
    const int m = a_shape[0], k = a_shape[1], n = b_shape[1];
    product<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16), 0, stream>>>(a, b, out, m, n, k);
}
