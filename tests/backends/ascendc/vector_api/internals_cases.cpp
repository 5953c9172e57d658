// What lies below the API, and copies of slices.
#include "bench.h"
#include "allocator.h"
#include "internals.h"
#include "slices.h"
#include "system.h"
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

// ---- writes to the source of a copy out; p: whether the writer waits for it, the number of instructions that keep the writer waiting, and of copies ahead
static void copiesAhead(const bench::Call& c) {
  for (int64_t i = 0; i < c.p[2]; i++) DataCopy(globalOf(c)[3072], c.in<float>(2), 3072);
}
CASE(race_reused) {
  Muls(c.work<float>(), c.in<float>(0), 2.0f, 3072);
  PipeBarrier<PIPE_ALL>();
  copiesAhead(c);
  DataCopy(globalOf(c), c.work<float>(), 3072);
  if (c.p[0]) {
    SetFlag<HardEvent::MTE3_V>(EVENT_ID0);
    WaitFlag<HardEvent::MTE3_V>(EVENT_ID0);
  }
  for (int64_t i = 0; i < c.p[1]; i++) Duplicate(c.in<float>(1), 1.0f, 4096);
  Duplicate(c.work<float>(), 700.0f, 3072);
  Adds(c.work<float>(), c.work<float>(), 1.0f, 3072);
  PipeBarrier<PIPE_ALL>();
  DataCopy(c.out<float>(), globalOf(c), 3072);
}
CASE(race_loaded_again) {
  DataCopy(c.work<float>(), globalOf(c), 3072);
  PipeBarrier<PIPE_ALL>();
  for (int64_t i = 0; i < c.p[2]; i++) DataCopy(globalOf(c), c.in<float>(1), 3072);
  DataCopy(globalOf(c), c.work<float>(), 3072);
  if (c.p[0]) {
    SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID0);
    WaitFlag<HardEvent::MTE3_MTE2>(EVENT_ID0);
  }
  for (int64_t i = 0; i < c.p[1]; i++) DataCopy(c.in<float>(2), globalOf(c)[3072], 3072);
  DataCopy(c.work<float>(), globalOf(c)[3072], 3072);
  PipeBarrier<PIPE_ALL>();
  DataCopy(c.out<float>(), globalOf(c), 3072);
}
CASE(race_rows_reused) {  // rows of 5 numbers, with a gap of 3 in global memory
  Duplicate(c.work<float>(), 7.0f, 512);
  PipeBarrier<PIPE_ALL>();
  copiesAhead(c);
  DataCopyPad(globalOf(c), c.work<float>(), DataCopyExtParams(32, 20, 1, 12, 0));
  Duplicate(c.work<float>(), 8.0f, 256);
  PipeBarrier<PIPE_ALL>();
  DataCopy(c.out<float>(), globalOf(c), 256);
}
CASE(race_stored_again) {  // a later copy writes to the second half of the first one
  Duplicate(c.work<float>(), 7.0f, 256);
  Duplicate(c.out<float>(), 9.0f, 256);
  PipeBarrier<PIPE_ALL>();
  copiesAhead(c);
  DataCopy(globalOf(c), c.work<float>(), 256);
  DataCopy(globalOf(c)[128], c.out<float>(), 128);
  Duplicate(c.work<float>(), 8.0f, 256);
  PipeBarrier<PIPE_ALL>();
  DataCopy(c.out<float>(), globalOf(c), 256);
}
CASE(race_added) {
  Duplicate(c.work<float>(), 7.0f, 256);
  PipeBarrier<PIPE_ALL>();
  copiesAhead(c);
  SetAtomicAdd<float>();
  DataCopy(globalOf(c), c.work<float>(), 256);
  SetAtomicNone();
  Duplicate(c.work<float>(), 8.0f, 256);
  PipeBarrier<PIPE_ALL>();
  DataCopy(c.out<float>(), globalOf(c), 256);
}
