// Operators on whole tensors: dst = a + b is Add on all of a's elements, dst = a < b is Compare.
#pragma once
#include "compare.h"

#define TWIN_OPERATOR(NAME, SYMBOL, API)                                                             \
  template <typename T> struct NAME {                                                                \
    using TensorExpression = T;                                                                      \
    LocalTensor<T> one, other;                                                                       \
    void store(const LocalTensor<T>& dst) const { API(dst, one, other, int32_t(one.GetSize())); }    \
  };                                                                                                 \
  template <typename T> inline NAME<T> operator SYMBOL(const LocalTensor<T>& one, const LocalTensor<T>& other) { return {one, other}; }

#define TWIN_COMPARISON(NAME, SYMBOL, MODE)                                                          \
  template <typename T> struct NAME {                                                                \
    using TensorExpression = T;                                                                      \
    LocalTensor<T> one, other;                                                                       \
    template <typename U> void store(const LocalTensor<U>& dst) const {                              \
      Compare(dst, one, other, CMPMODE::MODE, uint32_t(one.GetSize()));                              \
    }                                                                                                \
  };                                                                                                 \
  template <typename T> inline NAME<T> operator SYMBOL(const LocalTensor<T>& one, const LocalTensor<T>& other) { return {one, other}; }

namespace AscendC {

TWIN_OPERATOR(SumOf, +, Add)
TWIN_OPERATOR(DifferenceOf, -, Sub)
TWIN_OPERATOR(ProductOf, *, Mul)
TWIN_OPERATOR(QuotientOf, /, Div)
TWIN_OPERATOR(BitsOfBoth, &, And)
TWIN_OPERATOR(BitsOfEither, |, Or)
TWIN_COMPARISON(IsLess, <, LT)
TWIN_COMPARISON(IsGreater, >, GT)
TWIN_COMPARISON(IsEqual, ==, EQ)
TWIN_COMPARISON(IsAtMost, <=, LE)
TWIN_COMPARISON(IsAtLeast, >=, GE)
TWIN_COMPARISON(IsOther, !=, NE)

}  // namespace AscendC
