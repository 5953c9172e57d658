// Compiler built-ins on raw local addresses, which some kernels call instead of the API. They know only the start address of a buffer.
#pragma once
#include "convert.h"
#include "fill.h"
#include "gather.h"
#include "mask.h"
#include "queues.h"
#include "reduce_repeat.h"
#include "transpose.h"

using AscendC::GetTPipePtr;  // CANN declares it outside of its namespace

enum class Order_t { VALUE_INDEX, INDEX_VALUE, ONLY_VALUE, ONLY_INDEX };

namespace simulator {

template <typename T> inline AscendC::LocalTensor<T> raw(T* pointer, const char* what) {
  return tensorAt<T>(reinterpret_cast<uint64_t>(pointer), what);
}
inline AscendC::LocalTensor<uint8_t> rawBytes(void* pointer, const char* what) { return raw(static_cast<uint8_t*>(pointer), what); }
inline AscendC::GlobalTensor<uint8_t> rawGlobal(void* pointer) {
  AscendC::GlobalTensor<uint8_t> made;
  made.SetGlobalBuffer(static_cast<uint8_t*>(pointer));
  return made;
}
// They work on the lanes that set_vector_mask selected.
template <typename T> inline Lanes registerLanes() { return maskOf<T, false>(uint64_t(0), ""); }

// Sums all repeats in a register, and writes nothing to memory.
template <typename T> inline void accumulate(T* src, int count, Stride from) {
  const char* what = "vcadd";
  Work work = workOf(registerLanes<T>(), count, int(256 / sizeof(T)), what);
  reduceCost(256ull * uint64_t(work.repeats), ACROSS);
  AscendC::LocalTensor<T> tensor = raw(src, what);
  lanesOperand(tensor, work, from, false, what);
  float sum = 0;
  for (int r = 0; r < work.repeats; r++) sum += treeSum(tensor.data(), work.of(r), r, from);
  core->registers.sum = bitsOf(T(sum));
}

}  // namespace simulator

// ---- registers

inline void set_vector_mask(uint64_t high, uint64_t low) { simulator::setMask(high, low); }
inline void set_mask_count() { AscendC::SetMaskCount(); }
inline void set_mask_norm() { AscendC::SetMaskNorm(); }
inline int64_t get_acc_val() { return AscendC::GetAccVal(); }
inline int64_t get_rsvd_cnt() { return AscendC::GetGatherMaskRemainCount(); }
inline void set_atomic_none() { simulator::core->atomic = simulator::Atomic::NONE; }
inline void set_atomic_add() { simulator::core->atomic = simulator::Atomic::ADD; }
inline void set_atomic_max() { simulator::core->atomic = simulator::Atomic::MAX; }
inline void set_atomic_min() { simulator::core->atomic = simulator::Atomic::MIN; }
inline void set_atomic_f32() { set_atomic_add(); }
inline void set_atomic_f16() { set_atomic_add(); }
inline void set_atomic_s32() { set_atomic_add(); }

// ---- copies, in blocks of 32 bytes

inline void copy_gm_to_ubuf(void* dst, void* src, uint8_t, uint16_t count, uint16_t length, uint16_t srcGap, uint16_t dstGap) {
  simulator::copyIn(simulator::rawBytes(dst, "copy_gm_to_ubuf"), simulator::rawGlobal(src), {count, length * 32ull, srcGap * 32ull, dstGap * 32ull},
               "copy_gm_to_ubuf");
}
inline void copy_ubuf_to_gm(void* dst, void* src, uint8_t, uint16_t count, uint16_t length, uint16_t srcGap, uint16_t dstGap) {
  if (simulator::core->atomic != simulator::Atomic::NONE)
    simulator::endRun("E-API-TWIN", "copy_ubuf_to_gm with an atomic operation is not supported: use DataCopy, which knows the element type");
  simulator::copyOut(simulator::rawGlobal(dst), simulator::rawBytes(src, "copy_ubuf_to_gm"), {count, length * 32ull, srcGap * 32ull, dstGap * 32ull},
                "copy_ubuf_to_gm");
}
inline void copy_ubuf_to_ubuf(void* dst, void* src, uint8_t, uint16_t count, uint16_t length, uint16_t srcGap, uint16_t dstGap) {
  AscendC::DataCopy(simulator::rawBytes(dst, "copy_ubuf_to_ubuf"), simulator::rawBytes(src, "copy_ubuf_to_ubuf"),
                    AscendC::DataCopyParams(count, length, srcGap, dstGap));
}

// ---- copies with lengths in bytes in global memory; in local memory each row starts at a block
#define SIMULATOR_ALIGNED_COPY(BITS, T)                                                                                                                        \
  inline void copy_gm_to_ubuf_align_##BITS(void* dst, void* src, uint8_t, uint16_t count, uint32_t length, uint8_t left, uint8_t right, uint32_t srcGap,  \
                                           uint32_t dstGap) {                                                                                             \
    AscendC::GlobalTensor<T> from;                                                                                                                        \
    from.SetGlobalBuffer(static_cast<T*>(src));                                                                                                           \
    AscendC::DataCopyPadExtParams<T> pad(left || right, left, right, T(0));                                                                               \
    simulator::padIn(simulator::raw(static_cast<T*>(dst), "copy_gm_to_ubuf_align"), from, count, length, srcGap, dstGap, pad);                                      \
  }                                                                                                                                                       \
  inline void copy_ubuf_to_gm_align_##BITS(void* dst, void* src, uint8_t, uint16_t count, uint32_t length, uint8_t, uint8_t, uint32_t srcGap,             \
                                           uint32_t dstGap) {                                                                                             \
    AscendC::GlobalTensor<T> to;                                                                                                                          \
    to.SetGlobalBuffer(static_cast<T*>(dst));                                                                                                             \
    simulator::padOut(to, simulator::raw(static_cast<T*>(src), "copy_ubuf_to_gm_align"), count, length, srcGap, dstGap);                                            \
  }
SIMULATOR_ALIGNED_COPY(b8, uint8_t)
SIMULATOR_ALIGNED_COPY(b16, uint16_t)
SIMULATOR_ALIGNED_COPY(b32, uint32_t)

// ---- arithmetic: each calls the API function with the same meaning and does not change the mask register
#define SIMULATOR_RAW_BINARY(NAME, API)                                                                                                                        \
  template <typename T>                                                                                                                                   \
  inline void NAME(T* dst, T* src0, T* src1, uint8_t count, uint8_t dstBlk, uint8_t src0Blk, uint8_t src1Blk, uint8_t dstRep, uint8_t src0Rep,            \
                   uint8_t src1Rep) {                                                                                                                     \
    AscendC::API<T, false>(simulator::raw(dst, #NAME), simulator::raw(src0, #NAME), simulator::raw(src1, #NAME), uint64_t(0), count,                                     \
                           AscendC::BinaryRepeatParams(dstBlk, src0Blk, src1Blk, dstRep, src0Rep, src1Rep));                                              \
  }
#define SIMULATOR_RAW_UNARY(NAME, API)                                                                                                                         \
  template <typename T> inline void NAME(T* dst, T* src, uint8_t count, uint16_t dstBlk, uint16_t srcBlk, uint8_t dstRep, uint8_t srcRep) {               \
    AscendC::API<T, false>(simulator::raw(dst, #NAME), simulator::raw(src, #NAME), uint64_t(0), count, AscendC::UnaryRepeatParams(dstBlk, srcBlk, dstRep, srcRep)); \
  }
#define SIMULATOR_RAW_SCALAR(NAME, API)                                                                                                                        \
  template <typename T, typename N>                                                                                                                       \
  inline void NAME(T* dst, T* src, N scalar, uint8_t count, uint16_t dstBlk, uint16_t srcBlk, uint8_t dstRep, uint8_t srcRep) {                           \
    AscendC::API<T, false>(simulator::raw(dst, #NAME), simulator::raw(src, #NAME), T(scalar), uint64_t(0), count,                                                   \
                           AscendC::UnaryRepeatParams(dstBlk, srcBlk, dstRep, srcRep));                                                                   \
  }
SIMULATOR_RAW_BINARY(vadd, Add)
SIMULATOR_RAW_BINARY(vsub, Sub)
SIMULATOR_RAW_BINARY(vmul, Mul)
SIMULATOR_RAW_BINARY(vdiv, Div)
SIMULATOR_RAW_BINARY(vmax, Max)
SIMULATOR_RAW_BINARY(vmin, Min)
SIMULATOR_RAW_BINARY(vand, And)
SIMULATOR_RAW_BINARY(vor, Or)
SIMULATOR_RAW_UNARY(vexp, Exp)
SIMULATOR_RAW_UNARY(vln, Ln)
SIMULATOR_RAW_UNARY(vabs, Abs)
SIMULATOR_RAW_UNARY(vrec, Reciprocal)
SIMULATOR_RAW_UNARY(vrsqrt, Rsqrt)
SIMULATOR_RAW_UNARY(vsqrt, Sqrt)
SIMULATOR_RAW_UNARY(vrelu, Relu)
SIMULATOR_RAW_UNARY(vnot, Not)
SIMULATOR_RAW_SCALAR(vadds, Adds)
SIMULATOR_RAW_SCALAR(vmuls, Muls)
SIMULATOR_RAW_SCALAR(vmaxs, Maxs)
SIMULATOR_RAW_SCALAR(vmins, Mins)

template <typename T, typename N>
inline void vector_dup(T* dst, N scalar, uint8_t count, uint16_t dstBlk, uint16_t, uint8_t dstRep, uint8_t) {
  AscendC::Duplicate<T, false>(simulator::raw(dst, "vector_dup"), T(scalar), uint64_t(0), count, dstBlk, dstRep);
}

// ---- casts: the last letter is the rounding mode
#define SIMULATOR_RAW_CAST(NAME, D, S, MODE)                                                                                                                   \
  inline void NAME(D* dst, S* src, uint8_t count, uint16_t dstBlk, uint16_t srcBlk, uint8_t dstRep, uint8_t srcRep) {                                     \
    AscendC::Cast<D, S, false>(simulator::raw(dst, #NAME), simulator::raw(src, #NAME), AscendC::RoundMode::MODE, uint64_t(0), count,                                \
                               AscendC::UnaryRepeatParams(dstBlk, srcBlk, dstRep, srcRep));                                                               \
  }
#define SIMULATOR_RAW_CASTS(NAME, D, S)          \
  SIMULATOR_RAW_CAST(NAME##r, D, S, CAST_RINT)   \
  SIMULATOR_RAW_CAST(NAME##f, D, S, CAST_FLOOR)  \
  SIMULATOR_RAW_CAST(NAME##c, D, S, CAST_CEIL)   \
  SIMULATOR_RAW_CAST(NAME##a, D, S, CAST_ROUND)  \
  SIMULATOR_RAW_CAST(NAME##z, D, S, CAST_TRUNC)
SIMULATOR_RAW_CASTS(vconv_f322f16, half, float)
SIMULATOR_RAW_CASTS(vconv_f322bf16, bfloat16_t, float)
SIMULATOR_RAW_CASTS(vconv_f322s32, int32_t, float)
SIMULATOR_RAW_CASTS(vconv_f322s16, int16_t, float)
SIMULATOR_RAW_CASTS(vconv_f322s64, int64_t, float)
SIMULATOR_RAW_CASTS(vconv_f322f32, float, float)
SIMULATOR_RAW_CASTS(vconv_f162s32, int32_t, half)
SIMULATOR_RAW_CASTS(vconv_f162s16, int16_t, half)
SIMULATOR_RAW_CASTS(vconv_f162s8, int8_t, half)
SIMULATOR_RAW_CASTS(vconv_f162u8, uint8_t, half)
SIMULATOR_RAW_CASTS(vconv_s322f32, float, int32_t)
SIMULATOR_RAW_CASTS(vconv_s642f32, float, int64_t)
SIMULATOR_RAW_CASTS(vconv_bf162s32, int32_t, bfloat16_t)
SIMULATOR_RAW_CAST(vconv_f322f16, half, float, CAST_NONE)
SIMULATOR_RAW_CAST(vconv_f322f16o, half, float, CAST_ODD)
SIMULATOR_RAW_CAST(vconv_f162f32, float, half, CAST_NONE)
SIMULATOR_RAW_CAST(vconv_bf162f32, float, bfloat16_t, CAST_NONE)
SIMULATOR_RAW_CAST(vconv_s322f32, float, int32_t, CAST_NONE)
SIMULATOR_RAW_CAST(vconv_s162f32, float, int16_t, CAST_NONE)
SIMULATOR_RAW_CAST(vconv_s162f16, half, int16_t, CAST_NONE)
SIMULATOR_RAW_CAST(vconv_s82f16, half, int8_t, CAST_NONE)
SIMULATOR_RAW_CAST(vconv_u82f16, half, uint8_t, CAST_NONE)
SIMULATOR_RAW_CAST(vconv_f162s8, int8_t, half, CAST_NONE)
SIMULATOR_RAW_CAST(vconv_f162u8, uint8_t, half, CAST_NONE)
SIMULATOR_RAW_CAST(vconv_s322s16, int16_t, int32_t, CAST_NONE)
SIMULATOR_RAW_CAST(vconv_s322s64, int64_t, int32_t, CAST_NONE)
SIMULATOR_RAW_CAST(vconv_s642s32, int32_t, int64_t, CAST_NONE)
SIMULATOR_RAW_CAST(vconv_deq, half, int32_t, CAST_NONE)

// ---- reductions
template <typename T> inline void vcadd(T* dst, T* src, uint8_t count, uint16_t dstRep, uint16_t srcBlk, uint16_t srcRep, bool inRegister) {
  if (inRegister) return simulator::accumulate(src, count, {srcBlk, srcRep});
  AscendC::WholeReduceSum<T, false>(simulator::raw(dst, "vcadd"), simulator::raw(src, "vcadd"), 0, count, dstRep, srcBlk, srcRep);
}
template <typename T> inline void vcadd(std::nullptr_t, T* src, uint8_t count, uint16_t, uint16_t srcBlk, uint16_t srcRep, bool) {
  simulator::accumulate(src, count, {srcBlk, srcRep});
}
#define SIMULATOR_RAW_EXTREME(NAME, API)                                                                                                                       \
  template <typename T> inline void NAME(T* dst, T* src, uint8_t count, uint16_t dstRep, uint16_t srcBlk, uint16_t srcRep, Order_t order) {               \
    AscendC::API<T, false>(simulator::raw(dst, #NAME), simulator::raw(src, #NAME), 0, count, dstRep, srcBlk, srcRep, AscendC::ReduceOrder(order));                  \
  }
#define SIMULATOR_RAW_BLOCKS(NAME, API)                                                                                                                        \
  template <typename T> inline void NAME(T* dst, T* src, uint8_t count, uint16_t dstRep, uint16_t srcBlk, uint16_t srcRep) {                              \
    AscendC::API<T, false>(simulator::raw(dst, #NAME), simulator::raw(src, #NAME), count, 0, dstRep, srcBlk, srcRep);                                               \
  }
SIMULATOR_RAW_EXTREME(vcmax, WholeReduceMax)
SIMULATOR_RAW_EXTREME(vcmin, WholeReduceMin)
SIMULATOR_RAW_BLOCKS(vcgadd, BlockReduceSum)
SIMULATOR_RAW_BLOCKS(vcgmax, BlockReduceMax)
SIMULATOR_RAW_BLOCKS(vcgmin, BlockReduceMin)
SIMULATOR_RAW_BLOCKS(vcpadd, PairReduceSum)

// ---- 16 by 16 elements of 16 bits
template <typename T> inline void vtranspose(T* dst, T* src) { AscendC::Transpose(simulator::raw(dst, "vtranspose"), simulator::raw(src, "vtranspose")); }
