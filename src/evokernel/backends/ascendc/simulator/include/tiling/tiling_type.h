// Tiling keys composed of decimal digits, and the meaning of the digits for attention operators.
#pragma once
#include <cstdint>

namespace optiling {

enum class AxisEnum { B = 0, N2 = 1, G = 2, S1 = 3, S2 = 4, D = 5, NONE = 9 };
enum class DtypeEnum { FLOAT16 = 0, FLOAT32 = 1, BFLOAT16 = 2, FLOAT16_PRECISION = 3 };
enum class LayoutEnum { BSND = 0, SBND = 1, BNSD = 2, TND = 3 };
enum class SparseEnum { ALL, NONE, ANY, CAUSAL, BAND, PREFIX, BAND_COMPRESS, RIGHT_DOWN_CAUSAL, RIGHT_DOWN_CAUSAL_BAND, BAND_LEFT_UP_CAUSAL };
enum class OptionEnum { DISABLE = 0, ENABLE = 1 };

constexpr uint64_t TILINGKEYOFFSET = 10000000000000000000UL;
constexpr uint64_t RecursiveSum() { return 0; }
template <typename T, typename... More> constexpr uint64_t RecursiveSum(T digit, More... more) {
  return static_cast<uint64_t>(digit) + 10 * RecursiveSum(more...);
}
template <typename... Digits> constexpr uint64_t GET_TILINGKEY(Digits... digits) { return TILINGKEYOFFSET + RecursiveSum(digits...); }

}  // namespace optiling

#define TILINGKEY(ub2, ub1, block, dtype, layout, sparse)                                                           \
  (GET_TILINGKEY(AxisEnum::ub2, AxisEnum::ub1, AxisEnum::block, DtypeEnum::dtype, LayoutEnum::layout, SparseEnum::sparse))
