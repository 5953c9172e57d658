// selftest: task=starter/layernorm
// Vectors with operators of their own, in nested namespaces.
namespace numbers {
inline namespace narrow {
typedef float Lanes __attribute__((vector_size(16), aligned(4)));
}
namespace detail {
struct Row {
    const float* at;
    int64_t count;
    float operator[](int64_t i) const { return at[i]; }
    explicit operator bool() const { return count > 0; }
};
inline float operator+(float sum, const Row& row) {
    Lanes lanes{};
    int64_t i = 0;
    for (; i + 4 <= row.count; i += 4) lanes += *(const Lanes*)(row.at + i);
    for (; i < row.count; ++i) sum += row[i];
    return sum + lanes[0] + lanes[1] + lanes[2] + lanes[3];
}
}  // namespace detail
}  // namespace numbers
using numbers::detail::Row;

extern "C" void kernel(const float* x, const int64_t* x_shape, const float* norm_weight, const int64_t* norm_weight_shape,
                       const float* norm_bias, const int64_t* norm_bias_shape, int64_t dim, float* out, const int64_t* out_shape) {
    for (int64_t r = 0; r < x_shape[0]; ++r) {
        const Row row{x + r * dim, dim};
        if (!row) continue;
        const float mean = (0.0f + row) / dim;
        float squares = 0;
        for (int64_t c = 0; c < dim; ++c) squares += (row[c] - mean) * (row[c] - mean);
        const float scale = 1 / std::sqrt(squares / dim + 1e-5f);
        for (int64_t c = 0; c < dim; ++c) out[r * dim + c] = (row[c] - mean) * scale * norm_weight[c] + norm_bias[c];
    }
}
