// The arithmetic of the cube: tiles of four rows and sixteen columns, which the compiler keeps in vector registers.
#include "multiply.h"

#include <cstring>

namespace simulator {

namespace {

template <typename T> struct Wide {  // one vector register
  typedef T type __attribute__((vector_size(16)));
};

template <typename T> void tile(const T* a, const T* panel, T* c, int64_t n, int64_t k) noexcept {
  using Register = typename Wide<T>::type;
  constexpr int LANES = 16 / sizeof(T), PARTS = PACK_COLUMNS / LANES;
  Register sum[PACK_ROWS][PARTS];
#pragma GCC unroll 16
  for (int row = 0; row < PACK_ROWS; row++)
#pragma GCC unroll 16
    for (int part = 0; part < PARTS; part++) memcpy(&sum[row][part], c + row * n + part * LANES, sizeof(Register));
  for (int64_t x = 0; x < k; x++) {
    Register right[PARTS];
    memcpy(right, panel + x * PACK_COLUMNS, sizeof right);
#pragma GCC unroll 16
    for (int row = 0; row < PACK_ROWS; row++) {
      T left = a[row * k + x];
#pragma GCC unroll 16
      for (int part = 0; part < PARTS; part++) sum[row][part] += right[part] * left;
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < PACK_ROWS; row++)
#pragma GCC unroll 16
    for (int part = 0; part < PARTS; part++) memcpy(c + row * n + part * LANES, &sum[row][part], sizeof(Register));
}

template <typename T> void tiles(const T* a, const T* b, T* c, int64_t m, int64_t n, int64_t k) noexcept {
  for (int64_t j = 0; j < n; j += PACK_COLUMNS)
    for (int64_t i = 0; i < m; i += PACK_ROWS) tile(a + i * k, b + j * k, c + i * n + j, n, k);
}

}  // namespace

void multiply(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) { tiles(a, b, c, m, n, k); }
void multiply(const int32_t* a, const int32_t* b, int32_t* c, int64_t m, int64_t n, int64_t k) { tiles(a, b, c, m, n, k); }

}  // namespace simulator
