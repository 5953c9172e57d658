// Rows come tile by tile through a tensor map; where their length does not allow one, as they are.
#include <cuda.h>

constexpr int TILE = 64, THREADS = 64;

__device__ float gate(float y, float slope) { return y > 0 ? y : slope * y; }

__device__ float block_sum(float value) {
    __shared__ float parts[THREADS];
    parts[threadIdx.x] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    return parts[0];
}

__device__ uint32_t shared_address(const void* place) { return (uint32_t)__cvta_generic_to_shared(place); }

__device__ void wait(uint64_t* barrier, uint32_t parity) {
    uint32_t is_done = 0;
    while (!is_done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(is_done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
}

template <bool MAPPED>
__global__ void rows_kernel(const __grid_constant__ CUtensorMap map, const float* x, const float* scale, const float* shift, float slope,
                            float* out, int64_t width) {
    __shared__ alignas(128) float tile[TILE];
    __shared__ uint64_t barrier;
    const float* row = x + blockIdx.x * width;
    float sum = 0;
    if (MAPPED) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        }
        __syncthreads();
        for (int64_t at = 0, turn = 0; at < width; at += TILE, ++turn) {
            if (threadIdx.x == 0) {
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(TILE * 4) : "memory");
                asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
                                 shared_address(tile)),
                             "l"(&map), "r"(shared_address(&barrier)), "r"((int)at), "r"((int)blockIdx.x)
                             : "memory");
            }
            wait(&barrier, turn & 1);
            sum += fabsf(tile[threadIdx.x]);  // beyond the row, zeros
            __syncthreads();
        }
    } else {
        for (int64_t j = threadIdx.x; j < width; j += THREADS) sum += fabsf(row[j]);
    }
    const float size = 1 + block_sum(sum) / width;
    for (int64_t j = threadIdx.x; j < width; j += THREADS) out[blockIdx.x * width + j] = gate(row[j] / size * scale[j] + shift[j], slope);
}

extern "C" void kernel(const float* x, const int64_t* x_shape, const float* scale, const int64_t* scale_shape, const float* shift,
                       const int64_t* shift_shape, int64_t columns, double slope, float* out, const int64_t* out_shape,
                       cudaStream_t stream) {
    const int64_t width = x_shape[1];
    CUtensorMap map = {};
    if (width % 4 != 0) {  // strides are multiples of 16 bytes
        rows_kernel<false><<<x_shape[0], THREADS, 0, stream>>>(map, x, scale, shift, (float)slope, out, width);
        return;
    }
    void* encode = nullptr;
    cudaDriverEntryPointQueryResult found;
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found);
    const cuuint64_t sizes[] = {(cuuint64_t)width, (cuuint64_t)x_shape[0]}, strides[] = {(cuuint64_t)width * 4};
    const cuuint32_t box[] = {TILE, 1}, steps[] = {1, 1};
    ((decltype(&cuTensorMapEncodeTiled))encode)(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void*)x, sizes, strides, box, steps,
                                                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                                CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    rows_kernel<true><<<x_shape[0], THREADS, 0, stream>>>(map, x, scale, shift, (float)slope, out, width);
}
