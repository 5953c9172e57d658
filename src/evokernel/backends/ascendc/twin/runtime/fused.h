// Several steps in one instruction: multiply and add, add and clip.
#pragma once
#include "vector.h"

namespace AscendC {

// dst += src * scalar, where a float destination may have a half source. Cycles as with any two sources: none are published.
template <typename T, typename U> inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, const int32_t& count) {
  twin::takes<twin::Kind<T>::floats && (std::is_same<T, U>::value || (twin::Kind<T>::f32 && twin::Kind<U>::f16)), U>("Axpy");
  const U scalar = scalarValue;
  twin::binary("Axpy", dst, dst, src, count, 0, [scalar](T sum, U x) { return T(sum + x * scalar); });
}

}  // namespace AscendC
