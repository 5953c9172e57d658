// Operators on complete tensors: dst = a + b is Add on all elements of a, dst = a < b is Compare.
#pragma once
#include "compare.h"

#define SIMULATOR_OPERATOR(NAME, SYMBOL, API)                                                             \
  template <typename T> struct NAME {                                                                \
    using TensorExpression = T;                                                                      \
    LocalTensor<T> one, other;                                                                       \
    void store(const LocalTensor<T>& dst) const { API(dst, one, other, int32_t(one.GetSize())); }    \
  };                                                                                                 \
  template <typename T> inline NAME<T> operator SYMBOL(const LocalTensor<T>& one, const LocalTensor<T>& other) { return {one, other}; }

#define SIMULATOR_COMPARISON(NAME, SYMBOL, MODE)                                                          \
  template <typename T> struct NAME {                                                                \
    using TensorExpression = T;                                                                      \
    LocalTensor<T> one, other;                                                                       \
    template <typename U> void store(const LocalTensor<U>& dst) const {                              \
      Compare(dst, one, other, CMPMODE::MODE, uint32_t(one.GetSize()));                              \
    }                                                                                                \
  };                                                                                                 \
  template <typename T> inline NAME<T> operator SYMBOL(const LocalTensor<T>& one, const LocalTensor<T>& other) { return {one, other}; }

namespace AscendC {

SIMULATOR_OPERATOR(SumOf, +, Add)
SIMULATOR_OPERATOR(DifferenceOf, -, Sub)
SIMULATOR_OPERATOR(ProductOf, *, Mul)
SIMULATOR_OPERATOR(QuotientOf, /, Div)
SIMULATOR_OPERATOR(BitsOfBoth, &, And)
SIMULATOR_OPERATOR(BitsOfEither, |, Or)
SIMULATOR_COMPARISON(IsLess, <, LT)
SIMULATOR_COMPARISON(IsGreater, >, GT)
SIMULATOR_COMPARISON(IsEqual, ==, EQ)
SIMULATOR_COMPARISON(IsAtMost, <=, LE)
SIMULATOR_COMPARISON(IsAtLeast, >=, GE)
SIMULATOR_COMPARISON(IsOther, !=, NE)

}  // namespace AscendC
