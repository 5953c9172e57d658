// selftest: task=starter/softmax
// 2^(i/32) from a table that the compiler fills in.
#include <array>
static constexpr double root = 1.0218971486541166;  // 2^(1/32)
static constexpr std::array<double, 32> make() {
    std::array<double, 32> found{};
    double value = 1;
    for (int i = 0; i < 32; ++i, value *= root) found[i] = value;
    return found;
}
static constexpr auto powers = make();
static const float coefficients[3] = {1.0f, 1.0f / 2, 1.0f / 6};

static float exponential(float value) {
    if (value < -87) return 0;
    const double scaled = value * 46.16624130844683;  // 32 / ln 2
    const int whole = (int)std::floor(scaled);
    const double rest = (scaled - whole) * 0.021660849392498290;
    const double series = 1 + rest * (coefficients[0] + rest * (coefficients[1] + rest * coefficients[2]));
    return (float)std::ldexp(powers[whole & 31] * series, whole >> 5);
}

extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    const int64_t cols = x_shape[1];
    for (int64_t r = 0; r < x_shape[0]; ++r) {
        const float* row = x + r * cols;
        float *to = out + r * cols, most = row[0], sum = 0;
        for (int64_t c = 1; c < cols; ++c) most = std::max(most, row[c]);
        for (int64_t c = 0; c < cols; ++c) sum += to[c] = exponential(row[c] - most);
        for (int64_t c = 0; c < cols; ++c) to[c] /= sum;
    }
}
