// selftest: task=starter/sum_rows
// Two blocks for a row where there are clusters, one where there are none.
#include <cooperative_groups.h>

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

__global__ void one(const float* x, float* out, int64_t cols) {
    float sum = 0;
    for (int64_t c = threadIdx.x; c < cols; c += 256) sum += x[blockIdx.x * cols + c];
    sum = over_block(sum, true);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

__global__ void two(const float* x, float* out, int64_t cols) {
#if __CUDA_ARCH__ >= 900
    namespace cg = cooperative_groups;
    __shared__ float part;
    const cg::cluster_group cluster = cg::this_cluster();
    const int64_t row = blockIdx.x / 2, rank = cluster.block_rank();
    float sum = 0;
    for (int64_t c = 256 * rank + threadIdx.x; c < cols; c += 512) sum += x[row * cols + c];
    sum = over_block(sum, true);
    if (threadIdx.x == 0) part = sum;
    cluster.sync();
    if (rank == 0 && threadIdx.x == 0) out[row] = part + *cluster.map_shared_rank(&part, 1);
    cluster.sync();
#endif
}

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape, cudaStream_t stream) {
    int major = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    if (major < 9) {
        one<<<x_shape[0], 256, 0, stream>>>(x, out, x_shape[1]);
        return;
    }
    cudaLaunchAttribute pairs{};
    pairs.id = cudaLaunchAttributeClusterDimension;
    pairs.val.clusterDim.x = 2;
    pairs.val.clusterDim.y = pairs.val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(2 * x_shape[0]);
    config.blockDim = dim3(256);
    config.stream = stream;
    config.attrs = &pairs;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, two, x, out, x_shape[1]);
}
