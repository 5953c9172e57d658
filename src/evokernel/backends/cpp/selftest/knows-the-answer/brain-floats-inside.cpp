// selftest: task=starter/matmul gate=check reason=mismatch
// Inputs are cut to sixteen bits.
static float cut(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bits = (bits + 0x8000u) & 0xffff0000u;
    memcpy(&value, &bits, 4);
    return value;
}

extern "C" void kernel(const float* a, const int64_t* a_shape, const float* b, const int64_t* b_shape, float* out,
                       const int64_t* out_shape) {
    const int64_t m = a_shape[0], k = a_shape[1], n = b_shape[1];
    for (int64_t i = 0; i < m; ++i) {
        std::fill(out + i * n, out + (i + 1) * n, 0.0f);
        for (int64_t p = 0; p < k; ++p)
            for (int64_t j = 0; j < n; ++j) out[i * n + j] += cut(a[i * k + p]) * cut(b[p * n + j]);
    }
}
