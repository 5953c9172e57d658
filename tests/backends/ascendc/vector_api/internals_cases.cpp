// What lies below the API, and copies of slices.
#include "bench.h"
#include "allocator.h"
#include "internals.h"
#include "slices.h"
using namespace AscendC;

CASE(registers_turn) {  // 16 by 16 by address registers
  uint64_t to[16], from[16];
  for (int i = 0; i < 16; i++) {
    to[i] = c.out<half>()[i * 16].GetPhyAddr();
    from[i] = c.in<half>(0)[i * 16].GetPhyAddr();
  }
  set_va_reg_sb(VA0, to);
  set_va_reg_sb(VA1, to + 8);
  set_va_reg_sb(VA2, from);
  set_va_reg_sb(VA3, from + 8);
  scatter_vnchwconv_b16(VA0, VA2, 1, 0, 0);
}
CASE(pointers_turn) {
  auto* to = (__ubuf__ float*)c.out<float>().GetPhyAddr();
  auto* from = (__ubuf__ float*)c.in<float>(0).GetPhyAddr();
  __ubuf__ float *rows[16], *columns[16];
  for (int i = 0; i < 16; i++) {
    rows[i] = from + i * 8;
    columns[i] = to + i * 8;
  }
  TransDataTo5HDParams by;
  TransDataTo5HDImpl(columns, rows, by);
}
CASE(rest_of_memory) {  // p: bytes in use
  TPipe pipe;
  TBuf<TPosition::VECCALC> used;
  pipe.InitBuffer(used, uint32_t(c.p[0]));
  LocalTensor<int16_t> rest;
  bool isThere = PopStackBuffer<int16_t, TPosition::LCM>(rest);
  c.out<uint32_t>().SetValue(0, isThere ? rest.GetSize() * 2 : 0);
}
CASE(scalar_extremes) {
  c.out<int64_t>().SetValue(0, min(3, int64_t(-5)));
  c.out<int64_t>().SetValue(1, max(uint32_t(7), int64_t(2)));
}
// A matrix of three rows of 87, of which two pieces of each of rows 0 and 2 are taken.
static const SliceInfo matrix[] = {{16, 70, 7, 3, 87}, {0, 2, 1, 1, 3}};
static const SliceInfo taken[] = {{0, 47, 0, 3, 48}, {0, 1, 0, 1, 2}};
static GlobalTensor<float> globalOf(const bench::Call& c) {
  GlobalTensor<float> made;
  made.SetGlobalBuffer(reinterpret_cast<float*>(c.global));
  return made;
}
CASE(slices_in) { DataCopy(c.out<float>(), globalOf(c), taken, matrix, 2); }
CASE(slices_out) {
  DataCopy(globalOf(c), c.in<float>(1), matrix, taken, 2);
  PipeBarrier<PIPE_ALL>();
  DataCopy(c.out<float>(), globalOf(c), 264);
}
CASE(slices_differ) {
  const SliceInfo fewer[] = {{0, 23, 0, 3, 48}, {0, 1, 0, 1, 2}};
  DataCopy(c.out<float>(), globalOf(c), fewer, matrix, 2);
}
CASE(allocator) {  // p: elements of the second tensor
  LocalMemAllocator<Hardware::UB> memory;
  LocalTensor<float> first = memory.Alloc<float, 9>();
  LocalTensor<half> second = memory.Alloc<TPosition::VECCALC, half>(uint32_t(c.p[0]));
  c.out<uint64_t>().SetValue(0, second.GetPhyAddr() - first.GetPhyAddr());
  c.out<uint64_t>().SetValue(1, memory.GetCurAddr());
}

// ---- races; p: whether a barrier orders the pipes, and the number of instructions that keep the reader waiting
CASE(race_in) {
  Duplicate(c.work<float>(), 7.0f, 256);
  PipeBarrier<PIPE_ALL>();
  DataCopy(c.work<float>(), globalOf(c), 256);
  if (c.p[0]) PipeBarrier<PIPE_ALL>();
  for (int64_t i = 0; i < c.p[1]; i++) Duplicate(c.in<float>(1), 1.0f, 4096);
  Adds(c.out<float>(), c.work<float>(), 1.0f, 256);
  PipeBarrier<PIPE_ALL>();
  Add(c.out<float>(), c.out<float>(), c.work<float>(), 256);
}
CASE(race_in_place) {
  Duplicate(c.out<float>(), 7.0f, 256);
  PipeBarrier<PIPE_ALL>();
  DataCopy(c.out<float>(), globalOf(c), 256);
  Adds(c.out<float>(), c.out<float>(), 1.0f, 256);
}
CASE(race_out) {
  Duplicate(c.work<float>(), 7.0f, 256);
  PipeBarrier<PIPE_ALL>();
  Muls(c.work<float>(), c.in<float>(0), 2.0f, 256);
  DataCopy(globalOf(c), c.work<float>(), 256);
  PipeBarrier<PIPE_ALL>();
  DataCopy(c.out<float>(), globalOf(c), 256);
}
