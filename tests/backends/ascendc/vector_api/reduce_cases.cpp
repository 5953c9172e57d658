// Reductions, comparisons and selections.
#include "bench.h"
using namespace AscendC;

static uint64_t* bitsOf(const bench::Call& c, int first) {
  static uint64_t bits[2];
  bits[0] = uint64_t(c.p[first]);
  bits[1] = uint64_t(c.p[first + 1]);
  return bits;
}

// ---- p: count, with index
CASE_T(sum) { ReduceSum(c.out<T>(), c.in<T>(0), c.work<T>(), int32_t(c.p[0])); }
CASE_T(sum_value) {
  ReduceSum(c.work<T>(), c.in<T>(0), c.work<T>(), int32_t(c.p[0]));
  c.out<T>().SetValue(0, GetAccVal<T>());
}
CASE_T(maximum) { ReduceMax(c.out<T>(), c.in<T>(0), c.work<T>(), int32_t(c.p[0]), bool(c.p[1])); }
CASE_T(minimum) { ReduceMin(c.out<T>(), c.in<T>(0), c.work<T>(), int32_t(c.p[0]), bool(c.p[1])); }
CASE_T(maximum_small_work) {
  LocalTensor<T> work(TPosition::VECCALC, 120 * 1024, uint32_t(c.p[2]));
  ReduceMax(c.out<T>(), c.in<T>(0), work, int32_t(c.p[0]), bool(c.p[1]));
}
CASE_T(maximum_over_source) { ReduceMax(c.out<T>(), c.in<T>(0), c.in<T>(0), int32_t(c.p[0]), true); }

// ---- p: mask, repeats, stride
CASE_T(sum_mask) { ReduceSum(c.out<T>(), c.in<T>(0), c.work<T>(), int32_t(c.p[0]), int32_t(c.p[1]), int32_t(c.p[2])); }
CASE_T(maximum_mask) { ReduceMax(c.out<T>(), c.in<T>(0), c.work<T>(), int32_t(c.p[0]), int32_t(c.p[1]), int32_t(c.p[2]), true); }
CASE_T(whole_sum) { WholeReduceSum(c.out<T>(), c.in<T>(0), int32_t(c.p[0]), int32_t(c.p[1]), int32_t(c.p[2]), 1, 8); }
CASE_T(whole_sum_bits) { WholeReduceSum(c.out<T>(), c.in<T>(0), bitsOf(c, 0), int32_t(c.p[2]), 1, 1, 8); }
CASE_T(whole_max) { WholeReduceMax(c.out<T>(), c.in<T>(0), int32_t(c.p[0]), int32_t(c.p[1]), 1, 1, 8, ReduceOrder(c.p[2])); }
CASE_T(whole_min) { WholeReduceMin(c.out<T>(), c.in<T>(0), int32_t(c.p[0]), int32_t(c.p[1]), 1, 1, 8, ReduceOrder(c.p[2])); }
CASE_T(whole_max_count) {
  WholeReduceMax(c.work<T>(), c.in<T>(0), int32_t(c.p[0]), int32_t(c.p[1]), 1, 1, 8);
  T value, index;
  GetReduceMaxMinCount(value, index);
  c.out<T>().SetValue(0, value);
  c.out<T>().SetValue(1, index);
}
CASE_T(block_sum) { BlockReduceSum(c.out<T>(), c.in<T>(0), int32_t(c.p[1]), int32_t(c.p[0]), 1, 1, 8); }
CASE_T(block_max) { BlockReduceMax(c.out<T>(), c.in<T>(0), int32_t(c.p[1]), int32_t(c.p[0]), 1, 1, 8); }
CASE_T(block_min) { BlockReduceMin(c.out<T>(), c.in<T>(0), int32_t(c.p[1]), int32_t(c.p[0]), 1, 1, 8); }
CASE_T(pair_sum) { PairReduceSum(c.out<T>(), c.in<T>(0), int32_t(c.p[1]), int32_t(c.p[0]), 1, 1, 8); }
CASE_T(repeat_sum) { RepeatReduceSum(c.out<T>(), c.in<T>(0), int32_t(c.p[1]), int32_t(c.p[0]), 0, 1, 1, 8); }
CASE_T(whole_sum_counter) {
  SetMaskCount();
  SetVectorMask<T, MaskMode::COUNTER>(0, uint64_t(c.p[0]));
  WholeReduceSum<T, false>(c.out<T>(), c.in<T>(0), MASK_PLACEHOLDER, 1, 1, 1, 8);
  SetMaskNorm();
}
CASE(raw_sum) {
  set_vector_mask(0, ~0ull);
  vcadd(nullptr, (__ubuf__ float*)c.in<float>(0).GetPhyAddr(), uint8_t(c.p[0]), 1, 1, 8, true);
  int64_t bits = get_acc_val();
  c.out<float>().SetValue(0, *reinterpret_cast<float*>(&bits));
  vcadd((__ubuf__ float*)c.out<float>()[8].GetPhyAddr(), (__ubuf__ float*)c.in<float>(0).GetPhyAddr(), uint8_t(c.p[0]), 1, 1, 8, false);
}
CASE(raw_arithmetic) {
  auto* a = (__ubuf__ float*)c.in<float>(0).GetPhyAddr();
  auto* b = (__ubuf__ float*)c.in<float>(1).GetPhyAddr();
  auto* o = (__ubuf__ float*)c.out<float>().GetPhyAddr();
  set_mask_count();
  set_vector_mask(0, uint64_t(c.p[0]));
  vmul(o, a, b, 1, 1, 1, 1, 8, 8, 8);
  vadds(o, o, 1.0f, 1, 1, 1, 8, 8);
  vabs(o, o, 1, 1, 1, 8, 8);
  set_mask_norm();
  set_vector_mask(~0ull, ~0ull);
}
CASE(raw_outside) { vadds((__ubuf__ float*)nullptr, (__ubuf__ float*)c.in<float>(0).GetPhyAddr(), 1.0f, 1, 1, 1, 8, 8); }

// ---- p: mode, count
CASE_T(compare) { Compare(c.out<uint8_t>(), c.in<T>(0), c.in<T>(1), CMPMODE(c.p[0]), uint32_t(c.p[1])); }
CASE_T(compare_scalar) { CompareScalar(c.out<uint8_t>(), c.in<T>(0), T(0.5f), CMPMODE(c.p[0]), uint32_t(c.p[1])); }
CASE_T(compare_repeat) { Compare(c.out<uint8_t>(), c.in<T>(0), c.in<T>(1), CMPMODE(c.p[0]), uint64_t(1), uint8_t(c.p[1]), BinaryRepeatParams()); }
CASE(compare_int) { Compare(c.out<uint8_t>(), c.in<int32_t>(0), c.in<int32_t>(1), CMPMODE(c.p[0]), uint32_t(c.p[1])); }
CASE_T(compare_register) {
  Compare(c.in<T>(0), c.in<T>(1), CMPMODE(c.p[0]), uint64_t(256 / sizeof(T)), BinaryRepeatParams());
  GetCmpMask(c.out<uint8_t>());
}
CASE_T(select_register) {
  Compare(c.in<T>(0), c.in<T>(1), CMPMODE::GT, uint64_t(256 / sizeof(T)), BinaryRepeatParams());
  Select<T, SELMODE::VSEL_CMPMASK_SPR>(c.out<T>(), c.in<T>(0), c.in<T>(1), 2, BinaryRepeatParams());
}
// ---- p: mode, count
CASE_T(select) { Select(c.out<T>(), c.in<uint8_t>(2), c.in<T>(0), c.in<T>(1), SELMODE(c.p[0]), uint32_t(c.p[1])); }
CASE_T(select_scalar) { Select(c.out<T>(), c.in<uint8_t>(2), c.in<T>(0), T(-1), SELMODE(c.p[0]), uint32_t(c.p[1])); }
CASE_T(select_mask) {
  Select(c.out<T>(), c.in<uint8_t>(2), c.in<T>(0), c.in<T>(1), SELMODE(c.p[0]), uint64_t(c.p[1]), uint8_t(c.p[2]), BinaryRepeatParams());
}
