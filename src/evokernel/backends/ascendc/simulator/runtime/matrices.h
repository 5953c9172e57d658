// Matrices of the cube: the address of an element by format, and products of submatrices.
#pragma once
#include <algorithm>
#include <vector>

#include "copy.h"
#include "multiply.h"

namespace AscendC {

enum class CubeFormat { ND = 0, NZ, ZN, ZZ, NN, ND_ALIGN, SCALAR, VECTOR, ROW_MAJOR = ND, COLUMN_MAJOR = 16 };
enum class LayoutMode { NONE = 0, BSNGD, SBNGD, BNGS1S2, NORMAL };

}  // namespace AscendC

namespace simulator {

inline int64_t roundUp(int64_t number, int64_t to) { return (number + to - 1) / to * to; }

// Elements of a row whose offsets grow by `step`: `count` of them from the first, or more.
struct Stretch {
  int64_t count, step;
};
constexpr int64_t ANY_COUNT = int64_t(1) << 60;

// The offset of element (row, column) of a matrix, in elements.
struct Layout {
  bool fractal = false;  // NZ: columns in strips of `strip`, each with all rows
  bool transposed = false;
  bool single = false;  // all elements have the same value
  int64_t stride = 0;   // ND: elements from row to row; NZ: rows in a strip
  int64_t strip = 16;

  int64_t at(int64_t row, int64_t column) const {
    if (single) return 0;
    if (transposed) std::swap(row, column);
    return fractal ? column / strip * stride * strip + row * strip + column % strip : row * stride + column;
  }
  Stretch along(int64_t, int64_t column) const {
    if (single) return {ANY_COUNT, 0};
    if (transposed) return {ANY_COUNT, fractal ? strip : stride};
    return {fractal ? strip - column % strip : ANY_COUNT, 1};
  }
  int64_t elements(int64_t rows, int64_t columns) const { return rows && columns ? at(rows - 1, columns - 1) + 1 : 0; }
};

template <typename T> struct Accumulator {
  using Type = float;
};
template <> struct Accumulator<int8_t> {
  using Type = int32_t;
};
template <> struct Accumulator<uint8_t> {
  using Type = int32_t;
};
template <> struct Accumulator<int32_t> {
  using Type = int32_t;
};

// Calls f(first element, number of elements, their distance, column of the first) for the stretches of a part of a row.
template <class At, class F> inline void eachStretch(const At& at, int64_t row, int64_t from, int64_t count, int64_t most, F f) {
  for (int64_t x = 0; x < count;) {
    Stretch stretch = at.along(row, from + x);
    int64_t here = std::min({stretch.count, count - x, most - x % most});
    f(at.at(row, from + x), here, stretch.step, x);
    x += here;
  }
}

// Columns from..from + depth of the left factor, as packed rows.
template <typename A, typename S, class At> inline void packLeft(const A* left, const At& at, S* to, int64_t m, int64_t from, int64_t depth) {
  for (int64_t i = 0; i < m; i++)
    eachStretch(at, i, from, depth, depth, [&](int64_t first, int64_t count, int64_t step, int64_t x) {
      S* row = to + i * depth + x;
      if (step == 1)
        for (int64_t t = 0; t < count; t++) row[t] = S(left[first + t]);
      else
        for (int64_t t = 0; t < count; t++) row[t] = S(left[first + t * step]);
    });
}
// Rows from..from + depth of the right factor, in panels of columns.
template <typename B, typename S, class At> inline void packRight(const B* right, const At& at, S* to, int64_t n, int64_t from, int64_t depth) {
  for (int64_t x = 0; x < depth; x++)
    eachStretch(at, from + x, 0, n, PACK_COLUMNS, [&](int64_t first, int64_t count, int64_t step, int64_t j) {
      S* row = to + j / PACK_COLUMNS * depth * PACK_COLUMNS + x * PACK_COLUMNS + j % PACK_COLUMNS;
      if (step == 1)
        for (int64_t t = 0; t < count; t++) row[t] = S(right[first + t]);
      else
        for (int64_t t = 0; t < count; t++) row[t] = S(right[first + t * step]);
    });
}

// sum[m][packedColumns(n)] += left * right. Only complete packs are processed: missing rows and columns are zeros.
template <typename A, typename B, typename S, class LeftAt, class RightAt>
inline void product(const A* left, const LeftAt& leftAt, const B* right, const RightAt& rightAt, S* sum, int64_t m, int64_t n, int64_t k) {
  constexpr int64_t DEPTH = 256;
  static thread_local std::vector<S> a, b;
  int64_t rows = packedRows(m), columns = packedColumns(n), most = std::min(k, DEPTH);
  if (int64_t(a.size()) < rows * most) a.resize(size_t(rows * most));
  if (int64_t(b.size()) < columns * most) b.resize(size_t(columns * most));
  for (int64_t from = 0; from < k; from += DEPTH) {
    int64_t depth = std::min(DEPTH, k - from);
    packLeft(left, leftAt, a.data(), m, from, depth);
    std::fill(a.begin() + m * depth, a.begin() + rows * depth, S(0));
    if (n < columns) std::fill(b.begin() + (columns - PACK_COLUMNS) * depth, b.begin() + columns * depth, S(0));
    packRight(right, rightAt, b.data(), n, from, depth);
    multiply(a.data(), b.data(), sum, rows, columns, depth);
  }
}

}  // namespace simulator
