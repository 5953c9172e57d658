// Types, qualifiers and enumerations of Ascend C.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>  // must precede the macro __noinline__, which the standard library uses as an attribute
#include <type_traits>

#include "half.h"

#define __aicore__
#define __global__
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __fbuf__
#define __simd_vf__
#define __vector__
#define __cube__
#define __mix__(cube, vector)
#define __inout_pipe__(x)
#define __sync_alias__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __CCE_AICORE__ 220
#define __NPU_ARCH__ 2201
#define __DAV_C220__ 1
#define __CCE_UT_TEST__ 0
#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif
typedef half float16_t;
typedef float float32_t;
typedef uint8_t* GM_ADDR;

struct int4b_t {
  uint8_t bits = 0;
};

enum pipe_t { PIPE_S, PIPE_V, PIPE_MTE2, PIPE_MTE3, PIPE_MTE1, PIPE_M, PIPE_FIX, PIPE_ALL };
typedef int event_t;
constexpr event_t EVENT_ID0 = 0, EVENT_ID1 = 1, EVENT_ID2 = 2, EVENT_ID3 = 3, EVENT_ID4 = 4, EVENT_ID5 = 5, EVENT_ID6 = 6, EVENT_ID7 = 7;
enum KernelMetaType {
  KERNEL_TYPE_AIV_ONLY, KERNEL_TYPE_AIC_ONLY, KERNEL_TYPE_MIX_AIV_HARD_SYNC, KERNEL_TYPE_MIX_AIC_HARD_SYNC, KERNEL_TYPE_MIX_AIC_1_1,
  KERNEL_TYPE_MIX_AIC_1_2, KERNEL_TYPE_MIX_AIV_1_0, KERNEL_TYPE_MIX_AIC_1_0, KERNEL_TYPE_AICORE, KERNEL_TYPE_VECTORCORE, KERNEL_TYPE_MAX
};

namespace AscendC {

enum class TPosition : uint8_t {
  GM, A1, A2, B1, B2, C1, C2, CO1, CO2, VECIN, VECOUT, VECCALC, LCM = VECCALC, SPM, SHM = SPM, TSCM, C2PIPE2GM, MAX
};
using QuePosition = TPosition;
enum class HardEvent : uint8_t {
  MTE2_MTE1, MTE1_MTE2, MTE1_M, M_MTE1, MTE2_V, V_MTE2, MTE3_V, V_MTE3, M_V, V_M, V_V, MTE3_MTE1, MTE1_MTE3, MTE1_V, MTE2_M, M_MTE2, V_MTE1,
  M_FIX, FIX_M, MTE3_MTE2, MTE2_MTE3, S_V, V_S, S_MTE2, MTE2_S, S_MTE3, MTE3_S, MTE2_FIX, FIX_MTE2, FIX_S, M_S, FIX_MTE3, MTE1_FIX,
  FIX_MTE1, FIX_FIX, FIX_V, V_FIX, S_FIX, S_M, S_MTE1, MTE1_S, MAX
};
enum class RoundMode { CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD };
enum class CMPMODE : uint8_t { LT, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };
enum class MaskMode : uint8_t { NORMAL, COUNTER };
enum class CacheMode { CACHE_MODE_DISABLE = 0, CACHE_MODE_NORMAL = 1, CACHE_MODE_LAST = 2, CACHE_MODE_PERSISTENT = 4 };
enum class CacheRwMode { READ = 1, WRITE = 2, RW = 3 };
enum class CacheLine { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum class DcciDst { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
enum class ReduceOrder { ORDER_VALUE_INDEX, ORDER_INDEX_VALUE, ORDER_ONLY_VALUE, ORDER_ONLY_INDEX };
enum class MemDsbT { ALL, DDR, UB, SEQ };
enum { AIC = 0, AIV = 1, MIX = 2 };

constexpr int32_t TOTAL_VEC_LOCAL_SIZE = 184 * 1024, TOTAL_UB_SIZE = 192 * 1024, TOTAL_L1_SIZE = 512 * 1024;
constexpr int32_t TOTAL_L0A_SIZE = 64 * 1024, TOTAL_L0B_SIZE = 64 * 1024, TOTAL_L0C_SIZE = 128 * 1024, TMP_UB_SIZE = 8 * 1024;
constexpr int32_t ONE_BLK_SIZE = 32, ONE_REPEAT_BYTE_SIZE = 256, MAX_REPEAT_TIMES = 255, DEFAULT_BLK_NUM = 8, BLOCK_CUBE = 16, CUBE_MAX_SIZE = 256;
constexpr int32_t ONE_BLK_FLOAT_NUM = 8, ONE_BLK_HALF_NUM = 16, DEFAULT_C0_SIZE = 32, ONE_BYTE_BIT_SIZE = 8, TWO_OF_STACK_BUFFER = 2;
constexpr int32_t DEFAULT_BLK_STRIDE = 1, DEFAULT_REPEAT_STRIDE = 8, HALF_DEFAULT_REPEAT_STRIDE = 4, FP16_BLK_NUM = 16, BYTE_PER_FRACTAL = 512;
constexpr uint64_t MASK_PLACEHOLDER = 0, FULL_MASK = 0xffffffffffffffff;
constexpr uint64_t MASK_PLACEHOLDER_LIST[2] = {0, 0};

template <typename A, typename B> struct IsSameType { static constexpr bool value = std::is_same<A, B>::value; };
template <bool isFirst, typename A, typename B> struct Conditional { using type = std::conditional_t<isFirst, A, B>; };
template <typename A, typename... B> constexpr bool SupportType() { return (std::is_same<A, B>::value || ...); }
constexpr inline uint32_t DivCeil(uint32_t number, uint32_t by) { return (number + by - 1) / by; }
constexpr inline uint32_t ConstCeil(uint32_t number, uint32_t by) { return DivCeil(number, by); }
constexpr inline uint32_t AlignUp(uint32_t number, uint32_t to) { return DivCeil(number, to) * to; }
inline uint32_t Ceil(uint32_t number, uint32_t by) { return DivCeil(number, by); }
inline int32_t CeilDivision(int32_t number, int32_t by) { return by ? (number + by - 1) / by : 0; }
inline float ToFloat(const bfloat16_t& value) { return float(value); }
inline float Cast(const bfloat16_t& value) { return float(value); }
inline bfloat16_t ToBfloat16(const float& value) { return bfloat16_t(value); }
inline bfloat16_t Cast(const float& value) { return bfloat16_t(value); }

}  // namespace AscendC

namespace simulator {

template <typename T> constexpr const char* typeName() {
  if (std::is_same<T, float>::value) return "float";
  if (std::is_same<T, half>::value) return "half";
  if (std::is_same<T, bfloat16_t>::value) return "bfloat16_t";
  if (std::is_same<T, double>::value) return "double";
  if (std::is_same<T, bool>::value) return "bool";
  if (std::is_same<T, int4b_t>::value) return "int4b_t";
  constexpr const char* with[] = {"?", "int8_t", "int16_t", "?", "int32_t", "?", "?", "?", "int64_t"};
  constexpr const char* without[] = {"?", "uint8_t", "uint16_t", "?", "uint32_t", "?", "?", "?", "uint64_t"};
  return sizeof(T) > 8 ? "?" : std::is_signed<T>::value ? with[sizeof(T)] : without[sizeof(T)];
}

// The supported types of an instruction: reports a violation if T is not one of them.
template <typename T> struct Kind {
  static constexpr bool f32 = std::is_same<T, float>::value, f16 = std::is_same<T, half>::value, bf16 = std::is_same<T, bfloat16_t>::value;
  static constexpr bool i32 = std::is_same<T, int32_t>::value, u32 = std::is_same<T, uint32_t>::value;
  static constexpr bool i16 = std::is_same<T, int16_t>::value, u16 = std::is_same<T, uint16_t>::value;
  static constexpr bool floats = f32 || f16, arithmetic = floats || i32 || i16, bits16 = i16 || u16;
  static constexpr bool shifted = bits16 || i32 || u32;
};

}  // namespace simulator
