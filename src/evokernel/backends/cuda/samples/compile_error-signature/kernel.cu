// Not the arguments that were declared.
__global__ void copy(const float* x, float* out, int n) {
    if (threadIdx.x < n) out[threadIdx.x] = x[threadIdx.x];
}

extern "C" void kernel(const float* x, float* out, int n) { copy<<<1, 256>>>(x, out, n); }
