// Not the declared signature and no C linkage: this defines something else.
__global__ void copy(const float* x, float* out, int n) {
    if (threadIdx.x < n) out[threadIdx.x] = x[threadIdx.x];
}

void kernel(const float* x, float* out, int n) { copy<<<1, 256>>>(x, out, n); }
