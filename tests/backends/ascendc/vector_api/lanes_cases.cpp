// Arithmetic by count and by mask, casts, fills and fused instructions.
#include "bench.h"
using namespace AscendC;

static uint64_t* bitsOf(const bench::Call& c, int first) {
  static uint64_t bits[2];
  bits[0] = uint64_t(c.p[first]);
  bits[1] = uint64_t(c.p[first + 1]);
  return bits;
}

// ---- p: count
CASE_T(add) { Add(c.out<T>(), c.in<T>(0), c.in<T>(1), int32_t(c.p[0])); }
CASE_T(add_relu) { AddRelu(c.out<T>(), c.in<T>(0), c.in<T>(1), int32_t(c.p[0])); }
CASE_T(sub_relu) { SubRelu(c.out<T>(), c.in<T>(0), c.in<T>(1), int32_t(c.p[0])); }
CASE_T(muls) { Muls(c.out<T>(), c.in<T>(0), T(3), int32_t(c.p[0])); }
CASE_T(reciprocal) { Reciprocal(c.out<T>(), c.in<T>(0), int32_t(c.p[0])); }
CASE_T(rsqrt) { Rsqrt(c.out<T>(), c.in<T>(0), int32_t(c.p[0])); }
CASE_T(leaky) { LeakyRelu(c.out<T>(), c.in<T>(0), T(0.25f), int32_t(c.p[0])); }
CASE_T(dup) { Duplicate(c.out<T>(), T(2.5f), int32_t(c.p[0])); }
CASE_T(index) { CreateVecIndex(c.out<T>(), T(5), uint32_t(c.p[0])); }
CASE_T(axpy) {
  DataCopy(c.out<T>(), c.in<T>(1), uint32_t(c.p[0]));
  Axpy(c.out<T>(), c.in<T>(0), T(0.5f), int32_t(c.p[0]));
}
CASE(axpy_mixed) {
  DataCopy(c.out<float>(), c.in<float>(1), uint32_t(c.p[0]));
  Axpy(c.out<float>(), c.in<half>(0), half(0.5f), int32_t(c.p[0]));
}
CASE_T(mul_add_dst) {
  DataCopy(c.out<T>(), c.in<T>(2), uint32_t(c.p[0]));
  MulAddDst(c.out<T>(), c.in<T>(0), c.in<T>(1), int32_t(c.p[0]));
}
CASE_T(fused_mul_add) {
  DataCopy(c.out<T>(), c.in<T>(2), uint32_t(c.p[0]));
  FusedMulAdd(c.out<T>(), c.in<T>(0), c.in<T>(1), int32_t(c.p[0]));
}
CASE_T(mul_add_relu) {
  DataCopy(c.out<T>(), c.in<T>(2), uint32_t(c.p[0]));
  FusedMulAddRelu(c.out<T>(), c.in<T>(0), c.in<T>(1), int32_t(c.p[0]));
}
CASE(add_relu_cast) { AddReluCast(c.out<half>(), c.in<float>(0), c.in<float>(1), uint32_t(c.p[0])); }
CASE(mul_cast) { MulCast(c.out<int8_t>(), c.in<half>(0), c.in<half>(1), uint32_t(c.p[0])); }
CASE(add_deq_relu) {
  SetDeqScale(half(0.5f));
  AddDeqRelu(c.out<half>(), c.in<int32_t>(0), c.in<int32_t>(1), int32_t(c.p[0]));
}
CASE(cast_deq) {
  SetDeqScale(half(0.25f));
  Cast(c.out<half>(), c.in<int32_t>(0), RoundMode::CAST_NONE, uint32_t(c.p[0]));
}
CASE(cast_deq_bytes) {
  SetDeqScale(0.5f, 3, true);
  CastDeq<int8_t, int16_t, false, false>(c.out<int8_t>(), c.in<int16_t>(0), uint32_t(c.p[0]));
}
CASE(and16) { And(c.out<uint16_t>(), c.in<uint16_t>(0), c.in<uint16_t>(1), int32_t(c.p[0])); }
CASE(not16) { Not(c.out<int16_t>(), c.in<int16_t>(0), int32_t(c.p[0])); }
CASE(or32) { Or(c.out<int32_t>(), c.in<int32_t>(0), c.in<int32_t>(1), int32_t(c.p[0])); }
CASE(shift_left) { ShiftLeft(c.out<int16_t>(), c.in<int16_t>(0), int16_t(3), int32_t(c.p[0])); }
CASE(shift_right) { ShiftRight(c.out<int32_t>(), c.in<int32_t>(0), int32_t(4), int32_t(c.p[0])); }
CASE(shift_right_round) { ShiftRight(c.out<int32_t>(), c.in<int32_t>(0), int32_t(4), 64, uint8_t(c.p[0] / 64), UnaryRepeatParams(), true); }
CASE(add_bf16) { Add(c.out<bfloat16_t>(), c.in<bfloat16_t>(0), c.in<bfloat16_t>(1), int32_t(c.p[0])); }
CASE(dup_int8) { Duplicate(c.out<int8_t>(), int8_t(1), int32_t(c.p[0])); }

// ---- p: mask, repeats, then strides
CASE_T(add_mask) {
  BinaryRepeatParams by(uint8_t(c.p[2]), uint8_t(c.p[3]), uint8_t(c.p[4]), uint8_t(c.p[5]), uint8_t(c.p[6]), uint8_t(c.p[7]));
  Add(c.out<T>(), c.in<T>(0), c.in<T>(1), uint64_t(c.p[0]), uint8_t(c.p[1]), by);
}
CASE_T(add_bits) { Add(c.out<T>(), c.in<T>(0), c.in<T>(1), bitsOf(c, 0), uint8_t(c.p[2]), BinaryRepeatParams()); }
CASE_T(exp_bits) { Exp(c.out<T>(), c.in<T>(0), bitsOf(c, 0), uint8_t(c.p[2]), UnaryRepeatParams()); }
CASE_T(dup_mask) { Duplicate(c.out<T>(), T(7), uint64_t(c.p[0]), uint8_t(c.p[1]), uint16_t(c.p[2]), uint8_t(c.p[3])); }
CASE_T(dup_bits) { Duplicate(c.out<T>(), T(7), bitsOf(c, 0), uint8_t(c.p[2]), 1, 8); }
CASE_T(copy_mask) { Copy(c.out<T>(), c.in<T>(0), uint64_t(c.p[0]), uint8_t(c.p[1]), {uint16_t(c.p[2]), uint16_t(c.p[3]), uint16_t(c.p[4]), uint16_t(c.p[5])}); }
CASE_T(brcb) { Brcb(c.out<T>(), c.in<T>(0), uint8_t(c.p[0]), {uint16_t(c.p[1]), uint16_t(c.p[2])}); }
CASE_T(accumulate) { Add(c.out<T>(), c.in<T>(0), c.out<T>(), uint64_t(256 / sizeof(T)), uint8_t(c.p[0]), {1, 1, 1, 0, 8, 0}); }

// ---- the mask register
CASE_T(counter) {
  SetMaskCount();
  SetVectorMask<T, MaskMode::COUNTER>(0, uint64_t(c.p[0]));
  Add<T, false>(c.out<T>(), c.in<T>(0), c.in<T>(1), MASK_PLACEHOLDER, 1, {1, 1, 1, 8, 8, 8});
  SetMaskNorm();
  ResetMask();
}
CASE_T(counter_mask) {
  SetMaskCount();
  Muls(c.out<T>(), c.in<T>(0), T(2), uint64_t(c.p[0]), 1, UnaryRepeatParams());
  SetMaskNorm();
}
CASE_T(register_bits) {
  SetVectorMask<T>(uint64_t(c.p[1]), uint64_t(c.p[0]));
  Adds<T, false>(c.out<T>(), c.in<T>(0), T(1), MASK_PLACEHOLDER, uint8_t(c.p[2]), UnaryRepeatParams());
}
CASE_T(register_forgotten) {  // a count form between leaves the register full
  SetVectorMask<T>(0, 1);
  Duplicate(c.work<T>(), T(0), 64);
  Adds<T, false>(c.out<T>(), c.in<T>(0), T(1), MASK_PLACEHOLDER, 1, UnaryRepeatParams());
}

// ---- casts; p: count, rounding
#define CAST(NAME, D, S) \
  CASE(NAME) { Cast(c.out<D>(), c.in<S>(0), RoundMode(c.p[1]), uint32_t(c.p[0])); }
CAST(cast_f32_f16, half, float)
CAST(cast_f32_bf16, bfloat16_t, float)
CAST(cast_f32_i32, int32_t, float)
CAST(cast_f32_i16, int16_t, float)
CAST(cast_f32_i64, int64_t, float)
CAST(cast_f32_f32, float, float)
CAST(cast_f16_f32, float, half)
CAST(cast_f16_i32, int32_t, half)
CAST(cast_f16_i8, int8_t, half)
CAST(cast_f16_u8, uint8_t, half)
CAST(cast_bf16_f32, float, bfloat16_t)
CAST(cast_i32_f32, float, int32_t)
CAST(cast_i32_i16, int16_t, int32_t)
CAST(cast_i32_i64, int64_t, int32_t)
CAST(cast_i64_i32, int32_t, int64_t)
CAST(cast_i64_f32, float, int64_t)
CAST(cast_i16_f16, half, int16_t)
CAST(cast_i8_f16, half, int8_t)
CAST(cast_u8_f16, half, uint8_t)
CAST(cast_f16_bf16, bfloat16_t, half)
CAST(cast_i8_f32, float, int8_t)
CAST(cast_f16_i4, int4b_t, half)
CAST(cast_i4_f16, half, int4b_t)
CASE(cast_mask) { Cast(c.out<float>(), c.in<half>(0), RoundMode::CAST_NONE, uint64_t(c.p[0]), uint8_t(c.p[1]), {1, 1, 8, 4}); }
CASE(cast_narrow) { Cast(c.out<half>(), c.in<float>(0), RoundMode::CAST_RINT, 64, uint8_t(c.p[0]), {1, 1, 4, 8}); }
CASE(cast_in_place) {
  DataCopy(c.out<float>(), c.in<float>(0), uint32_t(c.p[0]));
  Cast(c.out<half>(), c.out<float>(), RoundMode::CAST_RINT, uint32_t(c.p[0]));
}
CASE(cast_widening_in_place) {
  DataCopy(c.out<half>(), c.in<half>(0), uint32_t(c.p[0]));
  Cast(c.out<float>(), c.out<half>(), RoundMode::CAST_NONE, uint32_t(c.p[0]));
}
CASE(overlap_count) { Adds(c.in<float>(0)[8], c.in<float>(0), 1.0f, int32_t(c.p[0])); }
CASE(overlap_behind) { Adds(c.in<float>(0), c.in<float>(0)[8], 1.0f, int32_t(c.p[0])); }
CASE_T(operators) {
  LocalTensor<T> a = c.in<T>(0), b = c.in<T>(1), out = c.out<T>();
  a.SetSize(uint32_t(c.p[0]));
  if (c.p[1] == 0) out = a + b;
  if (c.p[1] == 1) out = a - b;
  if (c.p[1] == 2) out = a * b;
  if (c.p[1] == 3) out = a / b;
  LocalTensor<uint8_t> bits = c.out<uint8_t>();
  if (c.p[1] == 4) bits = a < b;
  if (c.p[1] == 5) bits = a >= b;
}
CASE_T(progression) { ArithProgression(c.out<T>(), T(3), T(0.5f), int32_t(c.p[0])); }
CASE(passed_on) {  // forms taken by address, as kernels do
  void (*divide)(const LocalTensor<float>&, const LocalTensor<float>&, const LocalTensor<float>&, const int32_t&) = Div<float>;
  void (*clip)(const LocalTensor<float>&, const LocalTensor<float>&, const int32_t&) = Relu<float>;
  divide(c.out<float>(), c.in<float>(0), c.in<float>(1), int32_t(c.p[0]));
  clip(c.out<float>(), c.out<float>(), int32_t(c.p[0]));
}
