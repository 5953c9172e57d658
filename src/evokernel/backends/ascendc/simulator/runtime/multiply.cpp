// The arithmetic of the cube: tiles of four rows and one or two panels of sixteen columns, which the compiler keeps in vector registers.
#include "multiply.h"

#include <cstring>
#include <vector>

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

// The first `columns` columns of the result, which has n columns.
template <typename T> void multiplyTiles(const T* a, const T* b, T* c, int64_t m, int64_t columns, int64_t n, int64_t k) {
  int64_t done = 0;
#if defined(__x86_64__)
  static const bool hasAvx512 = __builtin_cpu_supports("avx512f"), hasAvx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (hasAvx512) {
    done = columns / (2 * PACK_COLUMNS) * 2 * PACK_COLUMNS;
    tilesAvx512(a, b, c, m, done, n, k);
  }
  if (hasAvx2) {
    tilesAvx2(a, b + done * k, c + done, m, columns - done, n, k);
    return;
  }
#endif
  tiles(a, b + done * k, c + done, m, columns - done, n, k);
}

// ---- zeros: at sizes that are checked in parts, most rows and columns of the inputs are zero

struct Stretch {  // of rows or columns
  int64_t start, count;
};

// The rows or columns with anything but zeros; packs of `each` of them are contiguous.
template <typename T> std::vector<Stretch> nonZero(const T* values, int64_t size, int64_t each, int64_t k) {
  std::vector<Stretch> found;
  for (int64_t start = 0; start < size; start += each) {
    if (isAllZero(values + start * k, uint64_t(each * k) * sizeof(T))) continue;
    if (!found.empty() && found.back().start + found.back().count == start) found.back().count += each;
    else found.push_back({start, each});
  }
  return found;
}

template <typename Bits> bool areFinite(const Bits* values, uint64_t count, Bits exponent) noexcept {
  Bits bad = 0;
  for (uint64_t i = 0; i < count; i++) bad |= Bits((values[i] & exponent) == exponent);
  return !bad;
}
bool isFinite(const int32_t*, int64_t) { return true; }
bool isFinite(const float* values, int64_t count) { return areFinite<uint32_t>(reinterpret_cast<const uint32_t*>(values), uint64_t(count), 0x7f800000u); }

template <typename T> void addRows(T* to, const T* from, int64_t rows, int64_t pitch) noexcept {
  for (int64_t row = 0; row < rows; row++)
    for (int64_t i = 0; i < 16; i++) to[row * 16 + i] += from[row * pitch + i];
}

// Zeros times finite numbers add nothing.
template <typename T> void multiplyNonZero(const T* a, const T* b, T* c, int64_t m, int64_t n, int64_t k) {
  if (!m || !n || !k) return;
  std::vector<Stretch> rows = nonZero(a, m, PACK_ROWS, k), columns = nonZero(b, n, PACK_COLUMNS, k);
  bool hasAllRows = rows.size() == 1 && rows[0].count == m, hasAllColumns = columns.size() == 1 && columns[0].count == n;
  if (!hasAllRows && !isFinite(b, n * k)) rows = {{0, m}};
  if (!hasAllColumns && !isFinite(a, m * k)) columns = {{0, n}};
  for (const Stretch& own : rows)
    for (const Stretch& other : columns)
      multiplyTiles(a + own.start * k, b + other.start * k, c + own.start * n + other.start, own.count, other.count, n, k);
}

}  // namespace

void addStrip(float* to, const float* from, int64_t rows, int64_t pitch) noexcept { addRows(to, from, rows, pitch); }
void addStrip(int32_t* to, const int32_t* from, int64_t rows, int64_t pitch) noexcept { addRows(to, from, rows, pitch); }
bool isFinite(const uint32_t* values, uint64_t count, uint32_t exponent) noexcept { return areFinite(values, count, exponent); }
bool isFinite(const uint16_t* values, uint64_t count, uint16_t exponent) noexcept { return areFinite(values, count, exponent); }

void turnSquare(uint32_t* first, uint32_t* second, const uint32_t* from) noexcept {
  uint32_t turned[2][16][8];
  for (int half = 0; half < 2; half++)
    for (int row = 0; row < 16; row++)
      for (int column = 0; column < 8; column++) turned[row / 8][half * 8 + column][row % 8] = from[(half * 16 + row) * 8 + column];
  memcpy(first, turned[0], sizeof turned[0]);
  memcpy(second, turned[1], sizeof turned[1]);
}

void multiply(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) { multiplyNonZero(a, b, c, m, n, k); }
void multiply(const int32_t* a, const int32_t* b, int32_t* c, int64_t m, int64_t n, int64_t k) { multiplyNonZero(a, b, c, m, n, k); }

}  // namespace simulator
