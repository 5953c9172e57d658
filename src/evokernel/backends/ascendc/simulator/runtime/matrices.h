// Matrices of the cube: the address of an element by format, and products of submatrices.
#pragma once
#include <vector>

#include "copy.h"
#include "multiply.h"

namespace AscendC {

enum class CubeFormat { ND = 0, NZ, ZN, ZZ, NN, ND_ALIGN, SCALAR, VECTOR, ROW_MAJOR = ND, COLUMN_MAJOR = 16 };
enum class LayoutMode { NONE = 0, BSNGD, SBNGD, BNGS1S2, NORMAL };

}  // namespace AscendC

namespace simulator {

inline int64_t roundUp(int64_t number, int64_t to) { return (number + to - 1) / to * to; }

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

// sum[m][packedColumns(n)] += left * right; only complete packs are processed.
template <typename A, typename B, typename S, class LeftAt, class RightAt>
inline void product(const A* left, const LeftAt& leftAt, const B* right, const RightAt& rightAt, S* sum, int64_t m, int64_t n, int64_t k) {
  constexpr int64_t DEPTH = 256;
  static thread_local std::vector<S> a, b;
  int64_t rows = packedRows(m), columns = packedColumns(n);
  a.assign(size_t(rows * DEPTH), S(0));
  b.assign(size_t(columns * DEPTH), S(0));
  for (int64_t from = 0; from < k; from += DEPTH) {
    int64_t depth = std::min(DEPTH, k - from);
    for (int64_t i = 0; i < m; i++)
      for (int64_t x = 0; x < depth; x++) a[size_t(i * depth + x)] = S(left[leftAt.at(i, from + x)]);
    for (int64_t i = m * depth; i < rows * depth; i++) a[size_t(i)] = S(0);
    for (int64_t x = 0; x < depth; x++)
      for (int64_t j = 0; j < n; j++)
        b[size_t(j / PACK_COLUMNS * depth * PACK_COLUMNS + x * PACK_COLUMNS + j % PACK_COLUMNS)] = S(right[rightAt.at(from + x, j)]);
    multiply(a.data(), b.data(), sum, rows, columns, depth);
  }
}

}  // namespace simulator
