// The arithmetic of the cube: tiles of four rows and one or two panels of sixteen columns, which the compiler keeps in vector registers.
#include "multiply.h"

#include <cstring>

namespace simulator {

namespace {

// Adds the product of m rows with the first `columns` columns, a multiple of PANELS panels; the result has n columns. The function is defined by a macro
// because GCC divides wide vectors before it inlines, into those of the function in which they stand.
#define SIMULATOR_TILES(NAME, TARGET, BYTES, PANELS)                                                                                  \
  template <typename T> struct NAME##Register {                                                                                       \
    typedef T type __attribute__((vector_size(BYTES)));                                                                               \
  };                                                                                                                                  \
  template <typename T> TARGET void NAME(const T* a, const T* b, T* c, int64_t m, int64_t columns, int64_t n, int64_t k) noexcept {     \
    using Register = typename NAME##Register<T>::type;                                                                                \
    constexpr int LANES = BYTES / sizeof(T), PARTS = PACK_COLUMNS / LANES;                                                            \
    for (int64_t j = 0; j < columns; j += PACK_COLUMNS * PANELS)                                                                      \
      for (int64_t i = 0; i < m; i += PACK_ROWS) {                                                                                    \
        Register sum[PACK_ROWS][PANELS][PARTS];                                                                                       \
        for (int row = 0; row < PACK_ROWS; row++) memcpy(sum[row], c + (i + row) * n + j, sizeof sum[row]);                           \
        for (int64_t x = 0; x < k; x++) {                                                                                             \
          Register right[PANELS][PARTS];                                                                                              \
          _Pragma("GCC unroll 16") for (int panel = 0; panel < PANELS; panel++)                                                       \
            memcpy(right[panel], b + (j + panel * PACK_COLUMNS) * k + x * PACK_COLUMNS, sizeof right[panel]);                         \
          _Pragma("GCC unroll 16") for (int row = 0; row < PACK_ROWS; row++) {                                                        \
            T left = a[(i + row) * k + x];                                                                                            \
            _Pragma("GCC unroll 16") for (int panel = 0; panel < PANELS; panel++)                                                     \
              _Pragma("GCC unroll 16") for (int part = 0; part < PARTS; part++) sum[row][panel][part] += right[panel][part] * left;   \
          }                                                                                                                           \
        }                                                                                                                             \
        for (int row = 0; row < PACK_ROWS; row++) memcpy(c + (i + row) * n + j, sum[row], sizeof sum[row]);                           \
      }                                                                                                                               \
  }

SIMULATOR_TILES(tiles, , 16, 1)

#if defined(__x86_64__)
SIMULATOR_TILES(tilesAvx2, __attribute__((target("avx2,fma"))), 32, 1)
SIMULATOR_TILES(tilesAvx512, __attribute__((target("avx512f,fma,prefer-vector-width=512"))), 64, 2)
#endif

template <typename T> void multiplyTiles(const T* a, const T* b, T* c, int64_t m, int64_t n, int64_t k) {
  int64_t done = 0;
#if defined(__x86_64__)
  static const bool hasAvx512 = __builtin_cpu_supports("avx512f"), hasAvx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (hasAvx512) {
    done = n / (2 * PACK_COLUMNS) * 2 * PACK_COLUMNS;
    tilesAvx512(a, b, c, m, done, n, k);
  }
  if (hasAvx2) {
    tilesAvx2(a, b + done * k, c + done, m, n - done, n, k);
    return;
  }
#endif
  tiles(a, b + done * k, c + done, m, n - done, n, k);
}

}  // namespace

void multiply(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) { multiplyTiles(a, b, c, m, n, k); }
void multiply(const int32_t* a, const int32_t* b, int32_t* c, int64_t m, int64_t n, int64_t k) { multiplyTiles(a, b, c, m, n, k); }

}  // namespace simulator
