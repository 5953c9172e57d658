// Reductions by mask and repeats: one result per repeat, per block of 32 bytes, per pair of neighbours, or in total.
#pragma once
#include "reduce.h"

namespace AscendC {

// ---- all repeats to one

template <typename T>
inline void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const int32_t mask,
                      const int32_t repeatTime, const int32_t srcRepStride) {
  simulator::sumOfAll(dst, src, sharedTmpBuffer, simulator::maskOf<T>(uint64_t(mask), "ReduceSum"), repeatTime, srcRepStride, "ReduceSum");
}
template <typename T>
inline void ReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const int32_t mask,
                      const int32_t repeatTime, const int32_t srcRepStride, bool calIndex = 0) {
  simulator::extremeOfRepeats(dst, src, sharedTmpBuffer, simulator::maskOf<T>(uint64_t(mask), "ReduceMax"), repeatTime, srcRepStride, calIndex, true,
                         "ReduceMax");
}
template <typename T>
inline void ReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const int32_t mask,
                      const int32_t repeatTime, const int32_t srcRepStride, bool calIndex = 0) {
  simulator::extremeOfRepeats(dst, src, sharedTmpBuffer, simulator::maskOf<T>(uint64_t(mask), "ReduceMin"), repeatTime, srcRepStride, calIndex, false,
                         "ReduceMin");
}
template <typename T>
inline void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const uint64_t mask[],
                      const int32_t repeatTime, const int32_t srcRepStride) {
  simulator::sumOfAll(dst, src, sharedTmpBuffer, simulator::maskOf<T>(mask, "ReduceSum"), repeatTime, srcRepStride, "ReduceSum");
}
template <typename T>
inline void ReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const uint64_t mask[],
                      const int32_t repeatTime, const int32_t srcRepStride, bool calIndex = 0) {
  simulator::extremeOfRepeats(dst, src, sharedTmpBuffer, simulator::maskOf<T>(mask, "ReduceMax"), repeatTime, srcRepStride, calIndex, true, "ReduceMax");
}
template <typename T>
inline void ReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const uint64_t mask[],
                      const int32_t repeatTime, const int32_t srcRepStride, bool calIndex = 0) {
  simulator::extremeOfRepeats(dst, src, sharedTmpBuffer, simulator::maskOf<T>(mask, "ReduceMin"), repeatTime, srcRepStride, calIndex, false, "ReduceMin");
}

// ---- one result per repeat

template <typename T, bool isSetMask = true>
inline void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask, const int32_t repeatTime,
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  simulator::sumRepeats(dst, src, simulator::maskOf<T, isSetMask>(uint64_t(mask), "WholeReduceSum"), repeatTime,
                   {dstRepStride, srcBlkStride, srcRepStride}, "WholeReduceSum");
}
template <typename T, bool isSetMask = true>
inline void WholeReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask, const int32_t repeatTime,
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
                           ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX) {
  simulator::extremeRepeats(dst, src, simulator::maskOf<T, isSetMask>(uint64_t(mask), "WholeReduceMax"), repeatTime,
                       {dstRepStride, srcBlkStride, srcRepStride}, order,
                       true, "WholeReduceMax");
}
template <typename T, bool isSetMask = true>
inline void WholeReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask, const int32_t repeatTime,
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
                           ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX) {
  simulator::extremeRepeats(dst, src, simulator::maskOf<T, isSetMask>(uint64_t(mask), "WholeReduceMin"), repeatTime,
                       {dstRepStride, srcBlkStride, srcRepStride}, order,
                       false, "WholeReduceMin");
}
template <typename T, bool isSetMask = true>
inline void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], const int32_t repeatTime,
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  simulator::sumRepeats(dst, src, simulator::maskOf<T, isSetMask>(mask, "WholeReduceSum"), repeatTime, {dstRepStride, srcBlkStride, srcRepStride},
                   "WholeReduceSum");
}
template <typename T, bool isSetMask = true>
inline void WholeReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], const int32_t repeatTime,
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
                           ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX) {
  simulator::extremeRepeats(dst, src, simulator::maskOf<T, isSetMask>(mask, "WholeReduceMax"), repeatTime, {dstRepStride, srcBlkStride, srcRepStride},
                       order,
                       true, "WholeReduceMax");
}
template <typename T, bool isSetMask = true>
inline void WholeReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], const int32_t repeatTime,
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
                           ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX) {
  simulator::extremeRepeats(dst, src, simulator::maskOf<T, isSetMask>(mask, "WholeReduceMin"), repeatTime, {dstRepStride, srcBlkStride, srcRepStride},
                       order,
                       false, "WholeReduceMin");
}
template <typename T, bool isSetMask = true>
inline void RepeatReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const int32_t mask,
                            const int32_t dstBlkStride, const int32_t srcBlkStride, const int32_t dstRepStride,
                            const int32_t srcRepStride) {
  (void)dstBlkStride;  // one element has only one block
  simulator::sumRepeats(dst, src, simulator::maskOf<T, isSetMask>(uint64_t(mask), "RepeatReduceSum"), repeatTime,
                   {dstRepStride, srcBlkStride, srcRepStride},
                   "RepeatReduceSum");
}

// ---- one result per block or pair: in these overloads the number of repeats precedes the mask

template <typename T, bool isSetMask = true>
inline void BlockReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const int32_t mask,
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  simulator::reduceBlocks(dst, src, simulator::maskOf<T, isSetMask>(uint64_t(mask), "BlockReduceSum"), repeatTime,
                     {dstRepStride, srcBlkStride, srcRepStride},
                     simulator::Kept::SUM, "BlockReduceSum");
}
template <typename T, bool isSetMask = true>
inline void BlockReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const int32_t mask,
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  simulator::reduceBlocks(dst, src, simulator::maskOf<T, isSetMask>(uint64_t(mask), "BlockReduceMax"), repeatTime,
                     {dstRepStride, srcBlkStride, srcRepStride},
                     simulator::Kept::LARGEST, "BlockReduceMax");
}
template <typename T, bool isSetMask = true>
inline void BlockReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const int32_t mask,
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  simulator::reduceBlocks(dst, src, simulator::maskOf<T, isSetMask>(uint64_t(mask), "BlockReduceMin"), repeatTime,
                     {dstRepStride, srcBlkStride, srcRepStride},
                     simulator::Kept::SMALLEST, "BlockReduceMin");
}
template <typename T, bool isSetMask = true>
inline void PairReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const int32_t mask,
                          const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  simulator::sumPairs(dst, src, simulator::maskOf<T, isSetMask>(uint64_t(mask), "PairReduceSum"), repeatTime,
                 {dstRepStride, srcBlkStride, srcRepStride}, "PairReduceSum");
}
template <typename T, bool isSetMask = true>
inline void BlockReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const uint64_t mask[],
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  simulator::reduceBlocks(dst, src, simulator::maskOf<T, isSetMask>(mask, "BlockReduceSum"), repeatTime, {dstRepStride, srcBlkStride, srcRepStride},
                     simulator::Kept::SUM, "BlockReduceSum");
}
template <typename T, bool isSetMask = true>
inline void BlockReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const uint64_t mask[],
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  simulator::reduceBlocks(dst, src, simulator::maskOf<T, isSetMask>(mask, "BlockReduceMax"), repeatTime, {dstRepStride, srcBlkStride, srcRepStride},
                     simulator::Kept::LARGEST, "BlockReduceMax");
}
template <typename T, bool isSetMask = true>
inline void BlockReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const uint64_t mask[],
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  simulator::reduceBlocks(dst, src, simulator::maskOf<T, isSetMask>(mask, "BlockReduceMin"), repeatTime, {dstRepStride, srcBlkStride, srcRepStride},
                     simulator::Kept::SMALLEST, "BlockReduceMin");
}
template <typename T, bool isSetMask = true>
inline void PairReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const uint64_t mask[],
                          const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  simulator::sumPairs(dst, src, simulator::maskOf<T, isSetMask>(mask, "PairReduceSum"), repeatTime, {dstRepStride, srcBlkStride, srcRepStride},
                 "PairReduceSum");
}

// ---- results of a reduction in registers, read by the scalar pipe

template <typename T> inline void GetReduceMaxMinCount(T& maxMinValue, T& maxMinIndex) {
  simulator::scalarWaits();
  if (simulator::isDry()) simulator::guess();
  memcpy(static_cast<void*>(&maxMinValue), &simulator::core->registers.extreme, sizeof(T));
  maxMinIndex = simulator::asBits<T>(simulator::core->registers.extremeIndex);
}
template <typename T> inline void GetReduceMaxMinCount(T& maxMinValue) {
  T index;
  GetReduceMaxMinCount(maxMinValue, index);
}
template <typename T> inline T GetAccVal() {
  simulator::scalarWaits();
  if (simulator::isDry()) simulator::guess();
  T value;
  memcpy(static_cast<void*>(&value), &simulator::core->registers.sum, sizeof(T));
  return value;
}
inline int64_t GetAccVal() {
  simulator::scalarWaits();
  if (simulator::isDry()) simulator::guess();
  return int64_t(simulator::core->registers.sum);
}

}  // namespace AscendC
