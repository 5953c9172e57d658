// The compiler's own functions on raw local addresses, which some kernels call past the API. All they know of a buffer is where it starts.
#pragma once
#include "convert.h"
#include "fill.h"
#include "mask.h"
#include "queues.h"
#include "reduce_repeat.h"
#include "transpose.h"

using AscendC::GetTPipePtr;  // CANN has it outside of its namespace

enum class Order_t { VALUE_INDEX, INDEX_VALUE, ONLY_VALUE, ONLY_INDEX };

namespace twin {

template <typename T> inline AscendC::LocalTensor<T> raw(T* pointer, const char* what) {
  return tensorAt<T>(reinterpret_cast<uint64_t>(pointer), what);
}
inline AscendC::LocalTensor<uint8_t> rawBytes(void* pointer, const char* what) { return raw(static_cast<uint8_t*>(pointer), what); }
inline AscendC::GlobalTensor<uint8_t> rawGlobal(void* pointer) {
  AscendC::GlobalTensor<uint8_t> made;
  made.SetGlobalBuffer(static_cast<uint8_t*>(pointer));
  return made;
}
// They work on the lanes that set_vector_mask left.
template <typename T> inline Lanes registerLanes() { return maskOf<T, false>(uint64_t(0), ""); }

// Adds all repeats up in a register, and leaves nothing in memory.
template <typename T> inline void accumulate(T* src, int count, Stride from) {
  const char* what = "vcadd";
  Work work = workOf(registerLanes<T>(), count, int(256 / sizeof(T)), what);
  vectorCost(256ull * uint64_t(work.repeats), ACROSS);
  AscendC::LocalTensor<T> tensor = raw(src, what);
  lanesOperand(tensor, work, from, false, what);
  float sum = 0;
  for (int r = 0; r < work.repeats; r++) sum += treeSum(tensor.data(), work.of(r), r, from);
  core->registers.sum = bitsOf(T(sum));
}

}  // namespace twin

// ---- registers

inline void set_vector_mask(uint64_t high, uint64_t low) { twin::setMask(high, low); }
inline void set_mask_count() { AscendC::SetMaskCount(); }
inline void set_mask_norm() { AscendC::SetMaskNorm(); }
inline int64_t get_acc_val() { return AscendC::GetAccVal(); }
inline int64_t get_rsvd_cnt() { return int64_t(twin::core->registers.kept); }
inline void set_atomic_none() { twin::core->atomic = twin::Atomic::NONE; }
inline void set_atomic_add() { twin::core->atomic = twin::Atomic::ADD; }
inline void set_atomic_max() { twin::core->atomic = twin::Atomic::MAX; }
inline void set_atomic_min() { twin::core->atomic = twin::Atomic::MIN; }
inline void set_atomic_f32() { set_atomic_add(); }
inline void set_atomic_f16() { set_atomic_add(); }
inline void set_atomic_s32() { set_atomic_add(); }

// ---- copies, in blocks of 32 bytes

inline void copy_gm_to_ubuf(void* dst, void* src, uint8_t, uint16_t count, uint16_t length, uint16_t srcGap, uint16_t dstGap) {
  twin::copyIn(twin::rawBytes(dst, "copy_gm_to_ubuf"), twin::rawGlobal(src), {count, length * 32ull, srcGap * 32ull, dstGap * 32ull},
               "copy_gm_to_ubuf");
}
inline void copy_ubuf_to_gm(void* dst, void* src, uint8_t, uint16_t count, uint16_t length, uint16_t srcGap, uint16_t dstGap) {
  if (twin::core->atomic != twin::Atomic::NONE)
    twin::stop("E-API-TWIN", "copy_ubuf_to_gm with an atomic operation: the twin takes DataCopy, which knows the type");
  twin::copyOut(twin::rawGlobal(dst), twin::rawBytes(src, "copy_ubuf_to_gm"), {count, length * 32ull, srcGap * 32ull, dstGap * 32ull},
                "copy_ubuf_to_gm");
}
inline void copy_ubuf_to_ubuf(void* dst, void* src, uint8_t, uint16_t count, uint16_t length, uint16_t srcGap, uint16_t dstGap) {
  AscendC::DataCopy(twin::rawBytes(dst, "copy_ubuf_to_ubuf"), twin::rawBytes(src, "copy_ubuf_to_ubuf"),
                    AscendC::DataCopyParams(count, length, srcGap, dstGap));
}

// ---- copies counted in bytes on the global side; on the local side each row starts at a block
#define TWIN_ALIGNED_COPY(BITS, T)                                                                                                                        \
  inline void copy_gm_to_ubuf_align_##BITS(void* dst, void* src, uint8_t, uint16_t count, uint32_t length, uint8_t left, uint8_t right, uint32_t srcGap,  \
                                           uint32_t dstGap) {                                                                                             \
    AscendC::GlobalTensor<T> from;                                                                                                                        \
    from.SetGlobalBuffer(static_cast<T*>(src));                                                                                                           \
    AscendC::DataCopyPadExtParams<T> pad(left || right, left, right, T(0));                                                                               \
    twin::padIn(twin::raw(static_cast<T*>(dst), "copy_gm_to_ubuf_align"), from, count, length, srcGap, dstGap, pad);                                      \
  }                                                                                                                                                       \
  inline void copy_ubuf_to_gm_align_##BITS(void* dst, void* src, uint8_t, uint16_t count, uint32_t length, uint8_t, uint8_t, uint32_t srcGap,             \
                                           uint32_t dstGap) {                                                                                             \
    AscendC::GlobalTensor<T> to;                                                                                                                          \
    to.SetGlobalBuffer(static_cast<T*>(dst));                                                                                                             \
    twin::padOut(to, twin::raw(static_cast<T*>(src), "copy_ubuf_to_gm_align"), count, length, srcGap, dstGap);                                            \
  }
TWIN_ALIGNED_COPY(b8, uint8_t)
TWIN_ALIGNED_COPY(b16, uint16_t)
TWIN_ALIGNED_COPY(b32, uint32_t)

// ---- arithmetic, each by the API's function of the same meaning, with the mask register as it is
#define TWIN_RAW_BINARY(NAME, API)                                                                                                                        \
  template <typename T>                                                                                                                                   \
  inline void NAME(T* dst, T* src0, T* src1, uint8_t count, uint8_t dstBlk, uint8_t src0Blk, uint8_t src1Blk, uint8_t dstRep, uint8_t src0Rep,            \
                   uint8_t src1Rep) {                                                                                                                     \
    AscendC::API<T, false>(twin::raw(dst, #NAME), twin::raw(src0, #NAME), twin::raw(src1, #NAME), uint64_t(0), count,                                     \
                           AscendC::BinaryRepeatParams(dstBlk, src0Blk, src1Blk, dstRep, src0Rep, src1Rep));                                              \
  }
#define TWIN_RAW_UNARY(NAME, API)                                                                                                                         \
  template <typename T> inline void NAME(T* dst, T* src, uint8_t count, uint16_t dstBlk, uint16_t srcBlk, uint8_t dstRep, uint8_t srcRep) {               \
    AscendC::API<T, false>(twin::raw(dst, #NAME), twin::raw(src, #NAME), uint64_t(0), count, AscendC::UnaryRepeatParams(dstBlk, srcBlk, dstRep, srcRep)); \
  }
#define TWIN_RAW_SCALAR(NAME, API)                                                                                                                        \
  template <typename T, typename N>                                                                                                                       \
  inline void NAME(T* dst, T* src, N scalar, uint8_t count, uint16_t dstBlk, uint16_t srcBlk, uint8_t dstRep, uint8_t srcRep) {                           \
    AscendC::API<T, false>(twin::raw(dst, #NAME), twin::raw(src, #NAME), T(scalar), uint64_t(0), count,                                                   \
                           AscendC::UnaryRepeatParams(dstBlk, srcBlk, dstRep, srcRep));                                                                   \
  }
TWIN_RAW_BINARY(vadd, Add)
TWIN_RAW_BINARY(vsub, Sub)
TWIN_RAW_BINARY(vmul, Mul)
TWIN_RAW_BINARY(vdiv, Div)
TWIN_RAW_BINARY(vmax, Max)
TWIN_RAW_BINARY(vmin, Min)
TWIN_RAW_BINARY(vand, And)
TWIN_RAW_BINARY(vor, Or)
TWIN_RAW_UNARY(vexp, Exp)
TWIN_RAW_UNARY(vln, Ln)
TWIN_RAW_UNARY(vabs, Abs)
TWIN_RAW_UNARY(vrec, Reciprocal)
TWIN_RAW_UNARY(vrsqrt, Rsqrt)
TWIN_RAW_UNARY(vsqrt, Sqrt)
TWIN_RAW_UNARY(vrelu, Relu)
TWIN_RAW_UNARY(vnot, Not)
TWIN_RAW_SCALAR(vadds, Adds)
TWIN_RAW_SCALAR(vmuls, Muls)
TWIN_RAW_SCALAR(vmaxs, Maxs)
TWIN_RAW_SCALAR(vmins, Mins)

template <typename T, typename N>
inline void vector_dup(T* dst, N scalar, uint8_t count, uint16_t dstBlk, uint16_t, uint8_t dstRep, uint8_t) {
  AscendC::Duplicate<T, false>(twin::raw(dst, "vector_dup"), T(scalar), uint64_t(0), count, dstBlk, dstRep);
}

// ---- casts: the letter at the end is the rounding
#define TWIN_RAW_CAST(NAME, D, S, MODE)                                                                                                                   \
  inline void NAME(D* dst, S* src, uint8_t count, uint16_t dstBlk, uint16_t srcBlk, uint8_t dstRep, uint8_t srcRep) {                                     \
    AscendC::Cast<D, S, false>(twin::raw(dst, #NAME), twin::raw(src, #NAME), AscendC::RoundMode::MODE, uint64_t(0), count,                                \
                               AscendC::UnaryRepeatParams(dstBlk, srcBlk, dstRep, srcRep));                                                               \
  }
#define TWIN_RAW_CASTS(NAME, D, S)          \
  TWIN_RAW_CAST(NAME##r, D, S, CAST_RINT)   \
  TWIN_RAW_CAST(NAME##f, D, S, CAST_FLOOR)  \
  TWIN_RAW_CAST(NAME##c, D, S, CAST_CEIL)   \
  TWIN_RAW_CAST(NAME##a, D, S, CAST_ROUND)  \
  TWIN_RAW_CAST(NAME##z, D, S, CAST_TRUNC)
TWIN_RAW_CASTS(vconv_f322f16, half, float)
TWIN_RAW_CASTS(vconv_f322bf16, bfloat16_t, float)
TWIN_RAW_CASTS(vconv_f322s32, int32_t, float)
TWIN_RAW_CASTS(vconv_f322s16, int16_t, float)
TWIN_RAW_CASTS(vconv_f322s64, int64_t, float)
TWIN_RAW_CASTS(vconv_f322f32, float, float)
TWIN_RAW_CASTS(vconv_f162s32, int32_t, half)
TWIN_RAW_CASTS(vconv_f162s16, int16_t, half)
TWIN_RAW_CASTS(vconv_f162s8, int8_t, half)
TWIN_RAW_CASTS(vconv_f162u8, uint8_t, half)
TWIN_RAW_CASTS(vconv_s322f32, float, int32_t)
TWIN_RAW_CASTS(vconv_s642f32, float, int64_t)
TWIN_RAW_CASTS(vconv_bf162s32, int32_t, bfloat16_t)
TWIN_RAW_CAST(vconv_f322f16, half, float, CAST_NONE)
TWIN_RAW_CAST(vconv_f322f16o, half, float, CAST_ODD)
TWIN_RAW_CAST(vconv_f162f32, float, half, CAST_NONE)
TWIN_RAW_CAST(vconv_bf162f32, float, bfloat16_t, CAST_NONE)
TWIN_RAW_CAST(vconv_s322f32, float, int32_t, CAST_NONE)
TWIN_RAW_CAST(vconv_s162f32, float, int16_t, CAST_NONE)
TWIN_RAW_CAST(vconv_s162f16, half, int16_t, CAST_NONE)
TWIN_RAW_CAST(vconv_s82f16, half, int8_t, CAST_NONE)
TWIN_RAW_CAST(vconv_u82f16, half, uint8_t, CAST_NONE)
TWIN_RAW_CAST(vconv_f162s8, int8_t, half, CAST_NONE)
TWIN_RAW_CAST(vconv_f162u8, uint8_t, half, CAST_NONE)
TWIN_RAW_CAST(vconv_s322s16, int16_t, int32_t, CAST_NONE)
TWIN_RAW_CAST(vconv_s322s64, int64_t, int32_t, CAST_NONE)
TWIN_RAW_CAST(vconv_s642s32, int32_t, int64_t, CAST_NONE)
TWIN_RAW_CAST(vconv_deq, half, int32_t, CAST_NONE)

// ---- reductions
template <typename T> inline void vcadd(T* dst, T* src, uint8_t count, uint16_t dstRep, uint16_t srcBlk, uint16_t srcRep, bool inRegister) {
  if (inRegister) return twin::accumulate(src, count, {srcBlk, srcRep});
  AscendC::WholeReduceSum<T, false>(twin::raw(dst, "vcadd"), twin::raw(src, "vcadd"), 0, count, dstRep, srcBlk, srcRep);
}
template <typename T> inline void vcadd(std::nullptr_t, T* src, uint8_t count, uint16_t, uint16_t srcBlk, uint16_t srcRep, bool) {
  twin::accumulate(src, count, {srcBlk, srcRep});
}
#define TWIN_RAW_EXTREME(NAME, API)                                                                                                                       \
  template <typename T> inline void NAME(T* dst, T* src, uint8_t count, uint16_t dstRep, uint16_t srcBlk, uint16_t srcRep, Order_t order) {               \
    AscendC::API<T, false>(twin::raw(dst, #NAME), twin::raw(src, #NAME), 0, count, dstRep, srcBlk, srcRep, AscendC::ReduceOrder(order));                  \
  }
#define TWIN_RAW_BLOCKS(NAME, API)                                                                                                                        \
  template <typename T> inline void NAME(T* dst, T* src, uint8_t count, uint16_t dstRep, uint16_t srcBlk, uint16_t srcRep) {                              \
    AscendC::API<T, false>(twin::raw(dst, #NAME), twin::raw(src, #NAME), count, 0, dstRep, srcBlk, srcRep);                                               \
  }
TWIN_RAW_EXTREME(vcmax, WholeReduceMax)
TWIN_RAW_EXTREME(vcmin, WholeReduceMin)
TWIN_RAW_BLOCKS(vcgadd, BlockReduceSum)
TWIN_RAW_BLOCKS(vcgmax, BlockReduceMax)
TWIN_RAW_BLOCKS(vcgmin, BlockReduceMin)
TWIN_RAW_BLOCKS(vcpadd, PairReduceSum)

// ---- 16 by 16 elements of 16 bits
template <typename T> inline void vtranspose(T* dst, T* src) { AscendC::Transpose(twin::raw(dst, "vtranspose"), twin::raw(src, "vtranspose")); }
