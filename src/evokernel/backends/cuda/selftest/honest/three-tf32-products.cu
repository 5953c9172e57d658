// selftest: task=starter/matmul
// The matrix units, each number as the sum of two that fit: as exact as floats.
__device__ void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ unsigned tf32(float v) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
    return bits & 0xffffe000u;
}

// One warp for 16 rows and 8 columns.
__global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
    const int row = blockIdx.y * 16, col = blockIdx.x * 8, g = threadIdx.x / 4, t = threadIdx.x % 4;
    float sum[4] = {};
    for (int k0 = 0; k0 < k; k0 += 8) {
        float left[4], right[2];
        for (int i = 0; i < 4; ++i) {
            const int r = row + g + i % 2 * 8, q = k0 + t + i / 2 * 4;
            left[i] = r < m && q < k ? a[(int64_t)r * k + q] : 0.0f;
        }
        for (int i = 0; i < 2; ++i) {
            const int q = k0 + t + 4 * i;
            right[i] = q < k && col + g < n ? b[(int64_t)q * n + col + g] : 0.0f;
        }
        unsigned high[4], low[4], other[2], rest[2];
        for (int i = 0; i < 4; ++i) high[i] = tf32(left[i]), low[i] = tf32(left[i] - __uint_as_float(high[i]));
        for (int i = 0; i < 2; ++i) other[i] = tf32(right[i]), rest[i] = tf32(right[i] - __uint_as_float(other[i]));
        mma(sum, low, other);
        mma(sum, high, rest);
        mma(sum, high, other);
    }
    for (int i = 0; i < 4; ++i) {
        const int r = row + g + i / 2 * 8, s = col + 2 * t + i % 2;
        if (r < m && s < n) c[(int64_t)r * n + s] = sum[i];
    }
}

extern "C" void kernel(const float* a, const int64_t* a_shape, const float* b, const int64_t* b_shape, float* out, const int64_t* out_shape,
                       cudaStream_t stream) {
    const int m = a_shape[0], k = a_shape[1], n = b_shape[1];
    product<<<dim3((n + 7) / 8, (m + 15) / 16), 32, 0, stream>>>(a, b, out, m, n, k);
}
