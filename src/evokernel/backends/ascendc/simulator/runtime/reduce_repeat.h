// Reductions by mask and repeats: one result per repeat, per block of 32 bytes, per pair of neighbours, or for all of them.
#pragma once
#include "reduce.h"

namespace AscendC {

// ---- all repeats to one

template <typename T>
inline void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const int32_t mask,
                      const int32_t repeatTime, const int32_t srcRepStride) {
  twin::sumOfAll(dst, src, sharedTmpBuffer, twin::maskOf<T>(uint64_t(mask), "ReduceSum"), repeatTime, srcRepStride, "ReduceSum");
}
template <typename T>
inline void ReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const int32_t mask,
                      const int32_t repeatTime, const int32_t srcRepStride, bool calIndex = 0) {
  twin::extremeOfRepeats(dst, src, sharedTmpBuffer, twin::maskOf<T>(uint64_t(mask), "ReduceMax"), repeatTime, srcRepStride, calIndex, true,
                         "ReduceMax");
}
template <typename T>
inline void ReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const int32_t mask,
                      const int32_t repeatTime, const int32_t srcRepStride, bool calIndex = 0) {
  twin::extremeOfRepeats(dst, src, sharedTmpBuffer, twin::maskOf<T>(uint64_t(mask), "ReduceMin"), repeatTime, srcRepStride, calIndex, false,
                         "ReduceMin");
}
template <typename T>
inline void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const uint64_t mask[],
                      const int32_t repeatTime, const int32_t srcRepStride) {
  twin::sumOfAll(dst, src, sharedTmpBuffer, twin::maskOf<T>(mask, "ReduceSum"), repeatTime, srcRepStride, "ReduceSum");
}
template <typename T>
inline void ReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const uint64_t mask[],
                      const int32_t repeatTime, const int32_t srcRepStride, bool calIndex = 0) {
  twin::extremeOfRepeats(dst, src, sharedTmpBuffer, twin::maskOf<T>(mask, "ReduceMax"), repeatTime, srcRepStride, calIndex, true, "ReduceMax");
}
template <typename T>
inline void ReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, const uint64_t mask[],
                      const int32_t repeatTime, const int32_t srcRepStride, bool calIndex = 0) {
  twin::extremeOfRepeats(dst, src, sharedTmpBuffer, twin::maskOf<T>(mask, "ReduceMin"), repeatTime, srcRepStride, calIndex, false, "ReduceMin");
}

// ---- one result per repeat

template <typename T, bool isSetMask = true>
inline void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask, const int32_t repeatTime,
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  twin::sumRepeats(dst, src, twin::maskOf<T, isSetMask>(uint64_t(mask), "WholeReduceSum"), repeatTime,
                   {dstRepStride, srcBlkStride, srcRepStride}, "WholeReduceSum");
}
template <typename T, bool isSetMask = true>
inline void WholeReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask, const int32_t repeatTime,
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
                           ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX) {
  twin::extremeRepeats(dst, src, twin::maskOf<T, isSetMask>(uint64_t(mask), "WholeReduceMax"), repeatTime,
                       {dstRepStride, srcBlkStride, srcRepStride}, order,
                       true, "WholeReduceMax");
}
template <typename T, bool isSetMask = true>
inline void WholeReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask, const int32_t repeatTime,
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
                           ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX) {
  twin::extremeRepeats(dst, src, twin::maskOf<T, isSetMask>(uint64_t(mask), "WholeReduceMin"), repeatTime,
                       {dstRepStride, srcBlkStride, srcRepStride}, order,
                       false, "WholeReduceMin");
}
template <typename T, bool isSetMask = true>
inline void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], const int32_t repeatTime,
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  twin::sumRepeats(dst, src, twin::maskOf<T, isSetMask>(mask, "WholeReduceSum"), repeatTime, {dstRepStride, srcBlkStride, srcRepStride},
                   "WholeReduceSum");
}
template <typename T, bool isSetMask = true>
inline void WholeReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], const int32_t repeatTime,
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
                           ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX) {
  twin::extremeRepeats(dst, src, twin::maskOf<T, isSetMask>(mask, "WholeReduceMax"), repeatTime, {dstRepStride, srcBlkStride, srcRepStride},
                       order,
                       true, "WholeReduceMax");
}
template <typename T, bool isSetMask = true>
inline void WholeReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], const int32_t repeatTime,
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
                           ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX) {
  twin::extremeRepeats(dst, src, twin::maskOf<T, isSetMask>(mask, "WholeReduceMin"), repeatTime, {dstRepStride, srcBlkStride, srcRepStride},
                       order,
                       false, "WholeReduceMin");
}
template <typename T, bool isSetMask = true>
inline void RepeatReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const int32_t mask,
                            const int32_t dstBlkStride, const int32_t srcBlkStride, const int32_t dstRepStride,
                            const int32_t srcRepStride) {
  (void)dstBlkStride;  // one element has no second block
  twin::sumRepeats(dst, src, twin::maskOf<T, isSetMask>(uint64_t(mask), "RepeatReduceSum"), repeatTime,
                   {dstRepStride, srcBlkStride, srcRepStride},
                   "RepeatReduceSum");
}

// ---- one result per block or pair: here the number of repeats comes before the mask

template <typename T, bool isSetMask = true>
inline void BlockReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const int32_t mask,
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  twin::reduceBlocks(dst, src, twin::maskOf<T, isSetMask>(uint64_t(mask), "BlockReduceSum"), repeatTime,
                     {dstRepStride, srcBlkStride, srcRepStride},
                     twin::Kept::SUM, "BlockReduceSum");
}
template <typename T, bool isSetMask = true>
inline void BlockReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const int32_t mask,
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  twin::reduceBlocks(dst, src, twin::maskOf<T, isSetMask>(uint64_t(mask), "BlockReduceMax"), repeatTime,
                     {dstRepStride, srcBlkStride, srcRepStride},
                     twin::Kept::LARGEST, "BlockReduceMax");
}
template <typename T, bool isSetMask = true>
inline void BlockReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const int32_t mask,
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  twin::reduceBlocks(dst, src, twin::maskOf<T, isSetMask>(uint64_t(mask), "BlockReduceMin"), repeatTime,
                     {dstRepStride, srcBlkStride, srcRepStride},
                     twin::Kept::SMALLEST, "BlockReduceMin");
}
template <typename T, bool isSetMask = true>
inline void PairReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const int32_t mask,
                          const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  twin::sumPairs(dst, src, twin::maskOf<T, isSetMask>(uint64_t(mask), "PairReduceSum"), repeatTime,
                 {dstRepStride, srcBlkStride, srcRepStride}, "PairReduceSum");
}
template <typename T, bool isSetMask = true>
inline void BlockReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const uint64_t mask[],
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  twin::reduceBlocks(dst, src, twin::maskOf<T, isSetMask>(mask, "BlockReduceSum"), repeatTime, {dstRepStride, srcBlkStride, srcRepStride},
                     twin::Kept::SUM, "BlockReduceSum");
}
template <typename T, bool isSetMask = true>
inline void BlockReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const uint64_t mask[],
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  twin::reduceBlocks(dst, src, twin::maskOf<T, isSetMask>(mask, "BlockReduceMax"), repeatTime, {dstRepStride, srcBlkStride, srcRepStride},
                     twin::Kept::LARGEST, "BlockReduceMax");
}
template <typename T, bool isSetMask = true>
inline void BlockReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const uint64_t mask[],
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  twin::reduceBlocks(dst, src, twin::maskOf<T, isSetMask>(mask, "BlockReduceMin"), repeatTime, {dstRepStride, srcBlkStride, srcRepStride},
                     twin::Kept::SMALLEST, "BlockReduceMin");
}
template <typename T, bool isSetMask = true>
inline void PairReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const uint64_t mask[],
                          const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
  twin::sumPairs(dst, src, twin::maskOf<T, isSetMask>(mask, "PairReduceSum"), repeatTime, {dstRepStride, srcBlkStride, srcRepStride},
                 "PairReduceSum");
}

// ---- what a reduction leaves in registers, for the scalar pipe to read

template <typename T> inline void GetReduceMaxMinCount(T& maxMinValue, T& maxMinIndex) {
  twin::scalarWaits();
  memcpy(static_cast<void*>(&maxMinValue), &twin::core->registers.extreme, sizeof(T));
  maxMinIndex = twin::asBits<T>(twin::core->registers.extremeIndex);
}
template <typename T> inline void GetReduceMaxMinCount(T& maxMinValue) {
  T index;
  GetReduceMaxMinCount(maxMinValue, index);
}
template <typename T> inline T GetAccVal() {
  twin::scalarWaits();
  T value;
  memcpy(static_cast<void*>(&value), &twin::core->registers.sum, sizeof(T));
  return value;
}
inline int64_t GetAccVal() {
  twin::scalarWaits();
  return int64_t(twin::core->registers.sum);
}

}  // namespace AscendC
