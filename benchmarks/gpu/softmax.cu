__device__ float over_block(float value, bool is_sum) {
  __shared__ float parts[32];
  for (int step = 16; step > 0; step /= 2) {
    float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = is_sum ? value + other : fmaxf(value, other);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = parts[0];
  for (int i = 1; i < blockDim.x / 32; ++i) value = is_sum ? value + parts[i] : fmaxf(value, parts[i]);
  return value;
}
__global__ void softmax(const float* x, float* out, int64_t width) {
  const float* row = x + blockIdx.x * width;
  float most = -INFINITY, sum = 0.0f;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) most = fmaxf(most, row[i]);
  most = over_block(most, false);
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) sum += expf(row[i] - most);
  sum = over_block(sum, true);
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) out[blockIdx.x * width + i] = expf(row[i] - most) / sum;
}
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape, cudaStream_t stream) {
  softmax<<<x_shape[0], 256, 0, stream>>>(x, out, x_shape[1]);
}
