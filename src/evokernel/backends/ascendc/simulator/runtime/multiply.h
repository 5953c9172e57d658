// The arithmetic of the cube on packed matrices.
#pragma once
#include <cstdint>
#include <cstring>

namespace simulator {

constexpr int64_t PACK_ROWS = 4, PACK_COLUMNS = 16;
constexpr int64_t packedRows(int64_t rows) { return (rows + PACK_ROWS - 1) / PACK_ROWS * PACK_ROWS; }
constexpr int64_t packedColumns(int64_t columns) { return (columns + PACK_COLUMNS - 1) / PACK_COLUMNS * PACK_COLUMNS; }

// c[m][n] += a[m][k] * b[k][n], where m and n are multiples of the pack size. b is stored in panels of PACK_COLUMNS columns: [n / 16][k][16].
void multiply(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k);
void multiply(const int32_t* a, const int32_t* b, int32_t* c, int64_t m, int64_t n, int64_t k);

// The following functions throw nothing, so that the compiler keeps their loops in vector registers.

// Adds a strip of 16 columns; `pitch` is the distance of the rows of `from`.
void addStrip(float* to, const float* from, int64_t rows, int64_t pitch) noexcept;
void addStrip(int32_t* to, const int32_t* from, int64_t rows, int64_t pitch) noexcept;

// Whether no number is an infinity or NaN, by the bits of the exponent.
bool isFinite(const uint32_t* values, uint64_t count, uint32_t exponent) noexcept;
bool isFinite(const uint16_t* values, uint64_t count, uint16_t exponent) noexcept;

// Transposes 16 x 16 elements of four bytes, stored as two fractals of eight columns, into two such fractals.
void turnSquare(uint32_t* first, uint32_t* second, const uint32_t* from) noexcept;

// Whether all bytes are zero. At sizes that are checked in parts, most of the inputs are.
inline bool isAllZero(const void* data, uint64_t bytes) noexcept {
  auto at = static_cast<const uint8_t*>(data);
  return !bytes || (!at[0] && !memcmp(at, at + 1, bytes - 1));  // all equal to the first
}

}  // namespace simulator
