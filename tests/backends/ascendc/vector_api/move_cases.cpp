// Gathers, sorts and transpositions.
#include "bench.h"
using namespace AscendC;

// ---- p: base, count
CASE_T(gather) { Gather(c.out<T>(), c.in<T>(0), c.in<uint32_t>(1), uint32_t(c.p[0]), uint32_t(c.p[1])); }
CASE_T(gather_mask_form) { Gather(c.out<T>(), c.in<T>(0), c.in<uint32_t>(1), 0, uint64_t(c.p[0]), uint8_t(c.p[1]), 8); }
CASE_T(gather_short) {  // a source of p[0] elements
  LocalTensor<T> source(TPosition::VECCALC, 0, uint32_t(c.p[0]));
  Gather(c.out<T>(), source, c.in<uint32_t>(1), 0, uint32_t(c.p[1]));
}
CASE(gather_blocks) { Gatherb(c.out<uint32_t>(), c.in<uint32_t>(0), c.in<uint32_t>(1), uint8_t(c.p[0]), {1, 8}); }
// ---- p: pattern, counter mode, mask, repeats
CASE_T(keep) {
  uint64_t kept = 0;
  GatherMask(c.out<T>(), c.in<T>(0), uint8_t(c.p[0]), bool(c.p[1]), uint32_t(c.p[2]), {1, uint16_t(c.p[3]), 8, 0}, kept);
  c.out<uint32_t>().SetValue(bench::SLOT / 4 - 1, uint32_t(kept));
}
CASE(keep_bits) {
  uint64_t kept = 0;
  GatherMask(c.out<float>(), c.in<float>(0), c.in<uint32_t>(1), bool(c.p[0]), uint32_t(c.p[1]), {1, uint16_t(c.p[2]), 8, uint8_t(c.p[3])}, kept);
  c.out<uint32_t>().SetValue(bench::SLOT / 4 - 1, uint32_t(kept));
}
CASE(scatter) { Scatter(c.out<float>(), c.in<float>(0), c.in<uint32_t>(1), 0u, uint32_t(c.p[0])); }
CASE(proposals) { RpSort16(c.out<half>(), c.in<half>(0), 1); }

// ---- p: repeats
CASE_T(sort32) { Sort32(c.out<T>(), c.in<T>(0), c.in<uint32_t>(1), int32_t(c.p[0])); }
CASE_T(sort_full) {
  LocalTensor<T> packed, work = c.work<T>();
  Concat(packed, c.in<T>(0), work, int32_t(c.p[0]));
  LocalTensor<T> sorted = c.at<T>(3);
  Sort<T, true>(sorted, packed, c.in<uint32_t>(1), work, int32_t(c.p[0]));
  Extract(c.out<T>(), c.out<uint32_t>()[2048], sorted, int32_t(c.p[0]));
}
CASE_T(merge) {  // p: lengths of four queues that lie 256 records apart, suspends
  LocalTensor<T> all = c.in<T>(0);
  auto queue = [&](int i) { return all[GetSortOffset<T>(uint32_t(i) * 256)]; };
  MrgSortSrcList<T> list(queue(0), queue(1), queue(2), queue(3));
  uint16_t lengths[4] = {uint16_t(c.p[0]), uint16_t(c.p[1]), uint16_t(c.p[2]), uint16_t(c.p[3])};
  MrgSort(c.out<T>(), list, MrgSort4Info(lengths, bool(c.p[4]), uint16_t(c.p[5]), 1));
  uint16_t done[4];
  GetMrgSortResult(done[0], done[1], done[2], done[3]);
  for (int i = 0; i < 4; i++) c.out<uint32_t>().SetValue(bench::SLOT / 4 - 4 + uint32_t(i), done[i]);
}

CASE(transpose16) { Transpose(c.out<half>(), c.in<half>(0)); }
CASE(raw_transpose) { vtranspose((__ubuf__ uint16_t*)c.out<uint16_t>().GetPhyAddr(), (__ubuf__ uint16_t*)c.in<uint16_t>(0).GetPhyAddr()); }
CASE(transpose_channels) {  // p: n, c, h, w, back
  TransposeParamsExt by(uint16_t(c.p[0]), uint16_t(c.p[1]), uint16_t(c.p[2]), uint16_t(c.p[3]),
                        c.p[4] ? TransposeType::TRANSPOSE_NHWC2NCHW : TransposeType::TRANSPOSE_NCHW2NHWC);
  Transpose(c.out<float>(), c.in<float>(0), c.work<uint8_t>(), by);
}
template <typename T> static void blocks(const bench::Call& c, int repeats, bool high) {
  LocalTensor<T> to[16], from[16];
  uint64_t toAddress[16], fromAddress[16];
  constexpr int width = int(32 / sizeof(T));
  for (int i = 0; i < 16; i++) {
    from[i] = c.in<T>(0)[i * width * repeats];
    to[i] = c.out<T>()[i * width];
    toAddress[i] = to[i].GetPhyAddr();
    fromAddress[i] = from[i].GetPhyAddr();
  }
  TransDataTo5HDParams by(high, high, uint8_t(repeats), uint16_t(repeats > 1 ? 16 : 0), uint16_t(repeats > 1 ? 1 : 0));
  if (repeats > 1) TransDataTo5HD<T>(toAddress, fromAddress, by);
  else TransDataTo5HD<T>(to, from, by);
}
CASE(blocks16) { blocks<half>(c, int(c.p[0]), false); }
CASE(blocks32) { blocks<float>(c, int(c.p[0]), false); }
CASE(blocks8) { blocks<uint8_t>(c, 1, bool(c.p[0])); }

// ---- global memory; p: elements of the output
static GlobalTensor<float> globalOf(const bench::Call& c) {
  GlobalTensor<float> made;
  made.SetGlobalBuffer(reinterpret_cast<float*>(c.global));
  return made;
}
CASE(init_output) {
  InitOutput<float>(globalOf(c)[8], uint32_t(c.p[0]), 2.5f);
  PipeBarrier<PIPE_ALL>();
  DataCopy(c.out<float>(), globalOf(c), 1024);
}
CASE(raw_copies) {  // rows of p[0] blocks with p[1] blocks between them, there and back without
  auto* local = (__ubuf__ float*)c.work<float>().GetPhyAddr();
  copy_gm_to_ubuf(local, c.global, 0, 3, uint16_t(c.p[0]), uint16_t(c.p[1]), 0);
  PipeBarrier<PIPE_ALL>();
  copy_ubuf_to_gm(c.global, local, 0, 1, uint16_t(3 * c.p[0]), 0, 0);
  PipeBarrier<PIPE_ALL>();
  copy_gm_to_ubuf((__ubuf__ float*)c.out<float>().GetPhyAddr(), c.global, 0, 1, uint16_t(3 * c.p[0]), 0, 0);
}
CASE(raw_rows) {  // rows of p[0] bytes, each in a separate block
  copy_gm_to_ubuf_align_b32((__ubuf__ float*)c.out<float>().GetPhyAddr(), c.global, 0, 4, uint32_t(c.p[0]), 0, 0, 0, 0);
}
CASE(pad_nothing) {  // rows of p[0] elements, with p[1] on the left and p[2] on the right without a fill value
  DataCopyPadExtParams<float> pad(false, uint8_t(c.p[1]), uint8_t(c.p[2]), 0.0f);
  DataCopyPad(c.out<float>(), globalOf(c), DataCopyExtParams(2, uint32_t(c.p[0] * 4), 0, 0, 0), pad);
}
CASE(pad_value) {
  SetPadValue<float>(-1.0f);
  DataCopyPad(c.out<float>(), globalOf(c), DataCopyExtParams(2, uint32_t(c.p[0] * 4), 0, 0, 0), DataCopyPadExtParams<float>());
}
