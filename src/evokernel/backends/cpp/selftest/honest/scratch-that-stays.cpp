// selftest: task=starter/matmul
// A buffer that is kept, but nothing in it is ever read before it is written.
extern "C" void kernel(const float* a, const int64_t* a_shape, const float* b, const int64_t* b_shape, float* out,
                       const int64_t* out_shape) {
    const int64_t m = a_shape[0], k = a_shape[1], n = b_shape[1];
    static thread_local float panel[64 * 1024];
    const int64_t width = std::min<int64_t>(n, 64 * 1024 / std::max<int64_t>(k, 1));
    for (int64_t from = 0; from < n; from += width) {
        const int64_t used = std::min(width, n - from);
        for (int64_t p = 0; p < k; ++p) memcpy(panel + p * used, b + p * n + from, 4 * used);
        for (int64_t i = 0; i < m; ++i) {
            float* to = out + i * n + from;
            std::fill(to, to + used, 0.0f);
            for (int64_t p = 0; p < k; ++p)
                for (int64_t j = 0; j < used; ++j) to[j] += a[i * k + p] * panel[p * used + j];
        }
    }
}
