__global__ void scale(const float4* x, float4* out, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) {
    float4 v = x[i];
    out[i] = make_float4(v.x * 1.5f, v.y * 1.5f, v.z * 1.5f, v.w * 1.5f);
  }
}
__global__ void rest(const float* x, float* out, int64_t from, int64_t n) {
  int64_t i = from + threadIdx.x;
  if (i < n) out[i] = x[i] * 1.5f;
}
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape, cudaStream_t stream) {
  int64_t n = x_shape[0] * x_shape[1], wide = n / 4;
  if (wide) scale<<<(wide + 255) / 256, 256, 0, stream>>>((const float4*)x, (float4*)out, wide);
  if (n % 4) rest<<<1, 4, 0, stream>>>(x, out, 4 * wide, n);
}
