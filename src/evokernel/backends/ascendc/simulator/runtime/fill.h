// Fills local memory: one value, one value per block, or a sequence of numbers.
#pragma once
#include "copy.h"
#include "vector.h"

namespace AscendC {

constexpr int32_t BRCB_BROADCAST_NUMBER = 8;
struct BrcbRepeatParams {
  uint32_t blockNumber = DEFAULT_BLK_NUM;
  uint16_t dstRepStride = DEFAULT_REPEAT_STRIDE, dstBlkStride = DEFAULT_BLK_STRIDE;
  uint8_t src0BlkStride = 1, src1BlkStride = 1, src0RepStride = 8, src1RepStride = 8;
  bool repeatStrideMode = false, strideSizeMode = false;
  BrcbRepeatParams() {}
  BrcbRepeatParams(const uint16_t dstBlk, const uint16_t dstRep) : dstRepStride(dstRep), dstBlkStride(dstBlk) {}
};
struct CopyRepeatParams {
  uint16_t dstStride = 1, srcStride = 1, dstRepeatSize = 8, srcRepeatSize = 8;
  CopyRepeatParams() {}
  CopyRepeatParams(const uint16_t dst, const uint16_t src, uint16_t dstRepeat, uint16_t srcRepeat)
      : dstStride(dst), srcStride(src), dstRepeatSize(dstRepeat), srcRepeatSize(srcRepeat) {}
};

}  // namespace AscendC

namespace simulator {

// One destination and no source: F computes each element from its index.
template <typename F, typename T> inline void fill(const char* what, const AscendC::LocalTensor<T>& dst, int64_t count, F f) {
  forgetMask();
  if (nothing(count, what)) return;
  vectorCost(uint64_t(count) * sizeof(T), 1);
  target(V, dst, uint64_t(count) * sizeof(T), what);
  if (isDry()) return;
  T* to = dst.data();
  for (int64_t i = 0; i < count; i++) to[i] = f(i);
}
template <typename F, typename T>
inline void fillRepeat(const char* what, const AscendC::LocalTensor<T>& dst, const Lanes& given, int count, Stride by, F f) {
  constexpr int width = int(256 / sizeof(T));
  Work work = workOf(given, count, width, what);
  vectorCost(256ull * uint64_t(work.repeats), 1);
  lanesOperand(dst, work, by, true, what);
  if (isDry()) return;
  for (int r = 0; r < work.repeats; r++)
    for (int lane = 0; lane < width; lane++)
      if (work.of(r).on(lane)) dst.data()[element<T>(r, lane, by)] = f(int64_t(r) * width + lane);
}

template <typename T> constexpr bool fills = Kind<T>::arithmetic || Kind<T>::bf16 || Kind<T>::u16 || Kind<T>::u32;

// Mask is a number of lanes or an array of bits.
template <typename T, typename Mask>
inline void indexRepeat(AscendC::LocalTensor<T>& dst, T first, Mask mask, uint8_t repeatTime, Stride to) {
  takes<Kind<T>::arithmetic, T>("CreateVecIndex");
  fillRepeat("CreateVecIndex", dst, maskOf<T>(mask, "CreateVecIndex"), repeatTime, to, [first](int64_t i) { return T(first + T(i)); });
}

}  // namespace simulator

namespace AscendC {

template <typename T> inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const int32_t& count) {
  simulator::takes<simulator::fills<T>, T>("Duplicate");
  const T value = scalarValue;
  simulator::fill("Duplicate", dst, count, [value](int64_t) { return value; });
}
template <typename T, bool isSetMask = true>
inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask, const uint8_t repeatTime,
                      const uint16_t dstBlockStride, const uint8_t dstRepeatStride) {
  simulator::takes<simulator::fills<T>, T>("Duplicate");
  const T value = scalarValue;
  simulator::fillRepeat("Duplicate", dst, simulator::maskOf<T, isSetMask>(mask, "Duplicate"), repeatTime, {dstBlockStride, dstRepeatStride},
                   [value](int64_t) { return value; });
}
template <typename T, bool isSetMask = true>
inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask[], const uint8_t repeatTime,
                      const uint16_t dstBlockStride, const uint8_t dstRepeatStride) {
  simulator::takes<simulator::fills<T>, T>("Duplicate");
  const T value = scalarValue;
  simulator::fillRepeat("Duplicate", dst, simulator::maskOf<T, isSetMask>(mask, "Duplicate"), repeatTime, {dstBlockStride, dstRepeatStride},
                   [value](int64_t) { return value; });
}

// first, first + 1, first + 2, ... The scalar pipe prepares the first values, so the cost is at least one instruction.
template <typename T> inline void CreateVecIndex(LocalTensor<T> dst, const T& firstValue, uint32_t count) {
  simulator::takes<simulator::Kind<T>::arithmetic, T>("CreateVecIndex");
  const T first = firstValue;
  simulator::fill("CreateVecIndex", dst, count, [first](int64_t i) { return T(first + T(i)); });
}
template <typename T>
inline void CreateVecIndex(LocalTensor<T>& dst, const T& firstValue, uint64_t mask, uint8_t repeatTime, uint16_t dstBlkStride,
                           uint8_t dstRepStride) {
  simulator::indexRepeat(dst, firstValue, mask, repeatTime, {dstBlkStride, dstRepStride});
}
template <typename T>
inline void CreateVecIndex(LocalTensor<T>& dst, const T& firstValue, uint64_t mask[], uint8_t repeatTime, uint16_t dstBlkStride,
                           uint8_t dstRepStride) {
  simulator::indexRepeat(dst, firstValue, mask, repeatTime, {dstBlkStride, dstRepStride});
}

// first, first + step, ... A library function: the scalar pipe writes the first values, and vector instructions double them until the end.
template <typename T>
inline void ArithProgression(const LocalTensor<T>& dst, const T firstValue, const T diffValue, const int32_t count) {
  simulator::takes<simulator::Kind<T>::arithmetic, T>("ArithProgression");
  simulator::core->scalar(8 * simulator::chip().scalar_ub);
  simulator::fill("ArithProgression", dst, count, [=](int64_t i) { return T(firstValue + T(i) * diffValue); });
}

// Each repeat copies eight elements, each into a complete block of 32 bytes.
template <typename T>
inline void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint8_t repeatTime, const BrcbRepeatParams& by) {
  const char* what = "Brcb";
  simulator::takes<simulator::fills<T>, T>(what);
  simulator::repeats(repeatTime, what);
  if (!by.dstBlkStride) simulator::reportViolation("E-STRIDE", "Brcb: dstBlkStride must not be 0");
  simulator::vectorCost(256ull * repeatTime, 1);
  bool inDoubt = simulator::Doubt().finds(src, repeatTime * 8ull * sizeof(T), what);
  LocalTensor<T> part = dst;
  for (uint32_t r = 0; r < repeatTime; r++)
    for (uint32_t block = 0; block < 8; block++) {
      const T value = src.data()[r * 8 + block];
      bool isKnown = !inDoubt || simulator::isKnown(src, r * 8 + block);
      part.address = dst.address + (r * by.dstRepStride + block * by.dstBlkStride) * 32;
      simulator::target(simulator::V, part, 32, what);
      if (simulator::isDry()) continue;
      std::fill_n(part.data(), 32 / sizeof(T), value);
      for (uint32_t i = 0; !isKnown && i < 32 / sizeof(T); i++) simulator::Doubt::forget(part, i);
    }
}

// Within UB, by mask and repeats.
template <typename T, bool isSetMask = true>
inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask, const uint8_t repeatTime,
                 const CopyRepeatParams& by) {
  simulator::takes<simulator::fills<T>, T>("Copy");
  simulator::unaryRepeat("Copy", dst, src, simulator::maskOf<T, isSetMask>(mask, "Copy"), repeatTime, {by.dstStride, by.dstRepeatSize},
                    {by.srcStride, by.srcRepeatSize}, 1,
                    [](T x) { return x; });
}
template <typename T, bool isSetMask = true>
inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], const uint8_t repeatTime,
                 const CopyRepeatParams& by) {
  simulator::takes<simulator::fills<T>, T>("Copy");
  simulator::unaryRepeat("Copy", dst, src, simulator::maskOf<T, isSetMask>(mask, "Copy"), repeatTime, {by.dstStride, by.dstRepeatSize},
                    {by.srcStride, by.srcRepeatSize}, 1,
                    [](T x) { return x; });
}

// Global memory, through a part of UB that the API reserves. It returns after starting the write, so other code must still wait.
template <typename T> inline void InitOutput(GlobalTensor<T> gmWorkspaceAddr, uint32_t size, T value = 0) {
  const char* what = "InitOutput";
  if (!size) return;
  gmWorkspaceAddr.writes(what);
  gmWorkspaceAddr.check(0, uint64_t(size) * sizeof(T), what);
  uint64_t bytes = uint64_t(size) * sizeof(T), piece = uint64_t(TOTAL_VEC_LOCAL_SIZE);
  simulator::vectorCost(std::min(bytes, piece), 1);
  simulator::Event filled;
  simulator::core->raise(filled, simulator::V);
  simulator::core->wait(filled, simulator::MTE3);
  for (uint64_t done = 0; done < bytes; done += piece) simulator::core->move(simulator::MTE3, double(std::min(piece, bytes - done)),
       gmWorkspaceAddr.aligned());
  std::vector<T> part(std::min<uint32_t>(size, 4096), value);
  for (uint64_t i = 0; i < size; i += part.size())
    gmWorkspaceAddr.receives(int64_t(i * sizeof(T)), part.data(), std::min<uint64_t>(part.size(), size - i) * sizeof(T), what);
  if (gmWorkspaceAddr.stores(0, bytes)) std::fill_n(gmWorkspaceAddr.data(), size, value);
}
template <typename T> inline void InitGlobalMemory(GlobalTensor<T>& gmWorkspaceAddr, const uint64_t size, const T value) {
  InitOutput<T>(gmWorkspaceAddr, uint32_t(size), value);
}
template <typename T> inline void Fill(GlobalTensor<T>& gmWorkspaceAddr, const uint64_t size, const T value) {
  InitOutput<T>(gmWorkspaceAddr, uint32_t(size), value);
}

// The default fill value of DataCopyPad.
template <typename T, TPosition pos = TPosition::MAX> inline void SetPadValue(T paddingValue) {
  simulator::core->registers.pad = 0;
  simulator::core->registers.hasPad = true;
  memcpy(&simulator::core->registers.pad, &paddingValue, sizeof(T));
}

}  // namespace AscendC
