// selftest: task=starter/matmul
// Tiles as template arguments, a fold, a lambda that writes back.
#include <array>
#include <utility>

template <int Rows, int Columns, class Store>
static void tile(const float* a, const float* b, int64_t k, int64_t n, int64_t rows, int64_t columns, Store&& store) {
    std::array<std::array<float, Columns>, Rows> sums{};
    for (int64_t p = 0; p < k; ++p)
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < columns; ++j) sums[i][j] += a[i * k + p] * b[p * n + j];
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) store(i, j, sums[i][j]);
}

template <class... T>
static constexpr auto product(T... values) {
    return (values * ... * 1);
}

extern "C" void kernel(const float* a, const int64_t* a_shape, const float* b, const int64_t* b_shape, float* out,
                       const int64_t* out_shape) {
    const int64_t m = a_shape[0], k = a_shape[1], n = b_shape[1];
    constexpr int rows = 7, columns = product(5, 13);  // odd on purpose
    for (int64_t i = 0; i < m; i += rows)
        for (int64_t j = 0; j < n; j += columns)
            tile<rows, columns>(a + i * k, b + j, k, n, std::min<int64_t>(rows, m - i), std::min<int64_t>(columns, n - j),
                                [=](int64_t y, int64_t z, float value) { out[(i + y) * n + j + z] = value; });
}
