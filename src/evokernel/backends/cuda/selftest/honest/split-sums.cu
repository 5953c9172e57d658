// selftest: task=starter/matmul
// Parts of the sum in scratch, added in a fixed order by a second kernel.
__global__ void product(const float* a, const float* b, float* c, int m, int n, int k, int part) {
    const int begin = blockIdx.z * part, end = min(k, begin + part);
    __shared__ float as[16][17], bs[16][17];
    const int r = blockIdx.y * 16 + threadIdx.y, s = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k0 = begin; k0 < end; k0 += 16) {
        as[threadIdx.y][threadIdx.x] = r < m && k0 + threadIdx.x < end ? a[(int64_t)r * k + k0 + threadIdx.x] : 0.0f;
        bs[threadIdx.y][threadIdx.x] = k0 + threadIdx.y < end && s < n ? b[(int64_t)(k0 + threadIdx.y) * n + s] : 0.0f;
        __syncthreads();
        for (int q = 0; q < 16; ++q) sum += as[threadIdx.y][q] * bs[q][threadIdx.x];
        __syncthreads();
    }
    if (r < m && s < n) c[((int64_t)blockIdx.z * m + r) * n + s] = sum;
}

__global__ void add(const float* parts, float* out, int64_t count, int splits) {
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= count) return;
    float sum = 0;
    for (int z = 0; z < splits; ++z) sum += parts[z * count + i];
    out[i] = sum;
}

extern "C" void kernel(const float* a, const int64_t* a_shape, const float* b, const int64_t* b_shape, float* out, const int64_t* out_shape,
                       cudaStream_t stream) {
    const int m = a_shape[0], k = a_shape[1], n = b_shape[1], splits = 4, part = (k + splits - 1) / splits;
    const int64_t count = (int64_t)m * n;
    float* parts = nullptr;
    cudaMallocAsync(&parts, splits * count * sizeof(float), stream);
    product<<<dim3((n + 15) / 16, (m + 15) / 16, splits), dim3(16, 16), 0, stream>>>(a, b, parts, m, n, k, part);
    add<<<(count + 255) / 256, 256, 0, stream>>>(parts, out, count, splits);
    cudaFreeAsync(parts, stream);
}
