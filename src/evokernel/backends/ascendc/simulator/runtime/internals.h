// Internal functions of CANN that published kernels call: on raw local addresses, on address registers, on the free part of UB.
#pragma once
#include <algorithm>

#include "builtins.h"

namespace simulator {
template <typename A, typename B>
using Common = typename std::enable_if_t<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value, std::common_type<A, B>>::type;
}  // namespace simulator

// ---- minimum and maximum of the scalar unit, which kernels call without a namespace; the empty pack prefers a kernel's own template
template <typename A, typename B, typename... None> constexpr simulator::Common<A, B> min(A one, B other, None...) {
  static_assert(sizeof...(None) == 0, "min takes two values");
  using C = simulator::Common<A, B>;
  return C(other) < C(one) ? C(other) : C(one);
}
template <typename A, typename B, typename... None> constexpr simulator::Common<A, B> max(A one, B other, None...) {
  static_assert(sizeof...(None) == 0, "max takes two values");
  using C = simulator::Common<A, B>;
  return C(one) < C(other) ? C(other) : C(one);
}

// ---- address registers: a pair of registers holds the 16 block addresses of a transposition
enum ub_addr8_t { VA0, VA1, VA2, VA3, VA4, VA5, VA6, VA7 };

inline void set_va_reg_sb(ub_addr8_t which, uint64_t* addresses) { std::copy_n(addresses, 8, simulator::core->registers.blocks[which]); }

namespace simulator {

template <typename T>
inline void turnRegisters(ub_addr8_t dst, ub_addr8_t src, const AscendC::TransDataTo5HDParams& by) {
  uint64_t to[16], from[16];
  for (int i = 0; i < 16; i++) {
    to[i] = core->registers.blocks[(dst + i / 8) & 7][i % 8];
    from[i] = core->registers.blocks[(src + i / 8) & 7][i % 8];
  }
  AscendC::TransDataTo5HD<T>(to, from, by);
}

}  // namespace simulator

inline void scatter_vnchwconv_b8(ub_addr8_t dst, ub_addr8_t src, uint8_t repeats, uint16_t dstRep, uint16_t srcRep, bool dstHigh, bool srcHigh) {
  simulator::turnRegisters<uint8_t>(dst, src, {dstHigh, srcHigh, repeats, dstRep, srcRep});
}
inline void scatter_vnchwconv_b16(ub_addr8_t dst, ub_addr8_t src, uint8_t repeats, uint16_t dstRep, uint16_t srcRep) {
  simulator::turnRegisters<uint16_t>(dst, src, {false, false, repeats, dstRep, srcRep});
}
inline void scatter_vnchwconv_b32(ub_addr8_t dst, ub_addr8_t src, uint8_t repeats, uint16_t dstRep, uint16_t srcRep) {
  simulator::turnRegisters<uint32_t>(dst, src, {false, false, repeats, dstRep, srcRep});
}

namespace AscendC {

// ---- implementation functions of the API that take raw addresses
template <typename T>
inline void TransDataTo5HDImpl(T* const (&dstList)[NCHW_CONV_ADDR_LIST_SIZE], T* const (&srcList)[NCHW_CONV_ADDR_LIST_SIZE],
                               const TransDataTo5HDParams& by) {
  uint64_t to[NCHW_CONV_ADDR_LIST_SIZE], from[NCHW_CONV_ADDR_LIST_SIZE];
  for (int i = 0; i < NCHW_CONV_ADDR_LIST_SIZE; i++) {
    to[i] = reinterpret_cast<uint64_t>(dstList[i]);
    from[i] = reinterpret_cast<uint64_t>(srcList[i]);
  }
  TransDataTo5HD<T>(to, from, by);
}
template <typename T> inline void DuplicateImpl(T* dst, const T& scalar, const int32_t& count) {
  Duplicate(simulator::raw(dst, "DuplicateImpl"), scalar, count);
}
template <typename T> inline void DataCopyGM2UBImpl(T* dst, T* src, const DataCopyParams& by) {
  GlobalTensor<T> from;
  from.SetGlobalBuffer(src);
  DataCopy(simulator::raw(dst, "DataCopyGM2UBImpl"), from, by);
}
template <typename T> inline void DataCopyUB2GMImpl(T* dst, T* src, const DataCopyParams& by) {
  GlobalTensor<T> to;
  to.SetGlobalBuffer(dst);
  DataCopy(to, simulator::raw(src, "DataCopyUB2GMImpl"), by);
}

// ---- the free part of UB as one tensor
template <typename T, TPosition position> inline bool PopStackBuffer(LocalTensor<T>& into) {
  static_assert(position == TPosition::VECCALC || position == TPosition::VECIN || position == TPosition::VECOUT, "only the rest of UB is supported");
  uint32_t used = simulator::core->top[simulator::UB] - simulator::SPACE_START[simulator::UB], all = uint32_t(simulator::spaceBytes(simulator::UB));
  if (used >= all) return false;
  into = LocalTensor<T>(position, used, (all - used) / uint32_t(sizeof(T)));
  return true;
}

}  // namespace AscendC
