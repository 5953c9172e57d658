// Sorting: Sort32 turns 32 elements into sorted 8-byte records of score and index; MrgSort merges up to four sorted queues.
#pragma once
#include "copy.h"
#include "vector.h"

namespace AscendC {

constexpr int32_t MRG_SORT_ELEMENT_LEN = 4;
struct MrgSort4Info {
  uint16_t elementLengths[MRG_SORT_ELEMENT_LEN] = {0};
  bool ifExhaustedSuspension = false;
  uint16_t validBit = 0;
  uint8_t repeatTimes = 1;
  MrgSort4Info() {}
  MrgSort4Info(const uint16_t lengths[MRG_SORT_ELEMENT_LEN], const bool suspends, const uint16_t valid, const uint16_t repeats)
      : ifExhaustedSuspension(suspends), validBit(valid), repeatTimes(uint8_t(repeats)) {
    for (int i = 0; i < MRG_SORT_ELEMENT_LEN; i++) elementLengths[i] = lengths[i];
  }
};
template <typename T> struct MrgSortSrcList {
  LocalTensor<T> src1, src2, src3, src4;
  MrgSortSrcList() {}
  MrgSortSrcList(const LocalTensor<T>& one, const LocalTensor<T>& two, const LocalTensor<T>& three, const LocalTensor<T>& four)
      : src1(one), src2(two), src3(three), src4(four) {}
};

}  // namespace AscendC

namespace simulator {

// Eight bytes: the score in the lowest bytes, the index in the upper four.
struct Record {
  uint8_t bytes[8];
  template <typename T> T score() const {
    T value;
    memcpy(static_cast<void*>(&value), bytes, sizeof(T));
    return value;
  }
  uint32_t index() const {
    uint32_t value;
    memcpy(&value, bytes + 4, 4);
    return value;
  }
};
template <typename T> inline Record recordOf(T score, uint32_t index) {
  Record made{};
  memcpy(made.bytes, &score, sizeof(T));
  memcpy(made.bytes + 4, &index, 4);
  return made;
}

// No cycles are published for sorting. Records cross lanes, so this uses the cycles of reductions.
constexpr double SORT = 7;

template <typename T> inline void sortable(const char* what) { takes<Kind<T>::floats, T>(what); }

template <typename T>
inline void sortRuns(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& scores,
                     const AscendC::LocalTensor<uint32_t>& indices, int32_t count, const char* what) {
  sortable<T>(what);
  constexpr int run = 32;
  if (count < 0 || count > 255) reportViolation("E-SORT-COUNT", "%s: %d repeats of 32 elements, but at most 255 are possible", what, count);
  if (count <= 0) return;
  vectorCost(256ull * uint64_t(count), SORT);
  source(V, scores, uint64_t(count) * run * sizeof(T), what);
  source(V, indices, uint64_t(count) * run * 4, what);
  if (isDry()) return target(V, dst, uint64_t(count) * run * sizeof(Record), what);
  std::vector<Record> records(size_t(count) * run);
  for (size_t i = 0; i < records.size(); i++) records[i] = recordOf(scores.data()[i], indices.data()[i]);
  for (int r = 0; r < count; r++)
    std::stable_sort(records.begin() + r * run, records.begin() + (r + 1) * run,
                     [](const Record& a, const Record& b) { return a.score<T>() > b.score<T>(); });
  target(V, dst, records.size() * sizeof(Record), what);
  memcpy(static_cast<void*>(dst.data()), records.data(), records.size() * sizeof(Record));
}

// Merges up to four queues of records, the largest score first; among equal scores the earlier queue first. Reports the number of records taken from each.
template <typename T> inline std::vector<Record> merged(const std::vector<Record> (&queues)[4], bool suspends, uint16_t (&taken)[4]) {
  std::vector<Record> result;
  size_t at[4] = {};
  for (;;) {
    int best = -1;
    bool exhausted = false;
    for (int q = 0; q < 4; q++) {
      if (queues[q].empty()) continue;
      if (at[q] == queues[q].size()) {
        exhausted = true;
        continue;
      }
      if (best < 0 || queues[q][at[q]].template score<T>() > queues[best][at[best]].template score<T>()) best = q;
    }
    if (best < 0 || (suspends && exhausted)) break;
    result.push_back(queues[best][at[best]++]);
  }
  for (int q = 0; q < 4; q++) taken[q] = uint16_t(at[q]);
  return result;
}

template <typename T>
inline std::vector<Record> queueAt(const AscendC::LocalTensor<T>& tensor, uint64_t skip, uint64_t records, const char* what) {
  AscendC::LocalTensor<T> part = tensor;
  part.address += uint32_t(skip * sizeof(Record));
  source(V, part, records * sizeof(Record), what, 8);
  std::vector<Record> queue(records);
  memcpy(queue.data(), part.data(), records * sizeof(Record));
  return queue;
}

template <typename T>
inline void merge(const AscendC::LocalTensor<T>& dst, const AscendC::MrgSortSrcList<T>& src, const AscendC::MrgSort4Info& by,
                  const char* what) {
  sortable<T>(what);
  if (by.validBit != 3 && by.validBit != 7 && by.validBit != 15)
    reportViolation("E-SORT-QUEUES", "%s: validBit is %d, but must be 3, 7 or 15 (two, three or four queues)", what, by.validBit);
  int queues = by.validBit == 3 ? 2 : by.validBit == 7 ? 3 : 4;
  const AscendC::LocalTensor<T>* tensors[4] = {&src.src1, &src.src2, &src.src3, &src.src4};
  uint64_t all = 0;
  bool alike = queues == 4 && !by.ifExhaustedSuspension;
  for (int q = 0; q < queues; q++) {
    if (by.elementLengths[q] > 4095) reportViolation("E-SORT-COUNT", "%s: queue %d has %d records, but at most 4095 are possible", what, q + 1, by.elementLengths[q]);
    all += by.elementLengths[q];
    bool follows = tensors[q]->address == tensors[0]->address + uint32_t(q) * by.elementLengths[0] * 8;
    alike = alike && follows && by.elementLengths[q] == by.elementLengths[0];
  }
  int count = by.repeatTimes;
  if (count > 1 && !alike) {
    reportViolation("E-SORT-QUEUES", "%s: more than one repeat requires four queues of equal length, one behind the other, without suspension", what);
    count = 1;
  }
  vectorCost(all * 8 * uint64_t(count), SORT);
  AscendC::LocalTensor<T> to = dst;
  for (int r = 0; r < count; r++) {
    std::vector<Record> given[4];
    for (int q = 0; q < queues; q++) given[q] = queueAt(*tensors[q], uint64_t(r) * all, by.elementLengths[q], what);
    std::vector<Record> result = merged<T>(given, by.ifExhaustedSuspension, core->registers.merged);
    to.address = dst.address + uint32_t(uint64_t(r) * all * 8);
    if (result.empty()) continue;
    target(V, to, result.size() * sizeof(Record), what);
    memcpy(static_cast<void*>(to.data()), result.data(), result.size() * sizeof(Record));
  }
}

}  // namespace simulator

namespace AscendC {

template <typename T>
inline void Sort32(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<uint32_t>& src1, const int32_t repeatTime) {
  simulator::sortRuns(dst, src0, src1, repeatTime, "Sort32");
}
template <typename T> inline void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& src, const MrgSort4Info& params) {
  simulator::merge(dst, src, params, "MrgSort");
}
inline void GetMrgSortResult(uint16_t& mrgSortList1, uint16_t& mrgSortList2, uint16_t& mrgSortList3, uint16_t& mrgSortList4) {
  simulator::core->order(simulator::S, simulator::V, simulator::chip().handshake);
  if (simulator::isDry()) simulator::guess();
  const uint16_t* merged = simulator::core->registers.merged;
  mrgSortList1 = merged[0];
  mrgSortList2 = merged[1];
  mrgSortList3 = merged[2];
  mrgSortList4 = merged[3];
}
template <typename T, bool isExhaustedSuspension = false>
inline void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& sortList, const uint16_t elementCountList[4], uint32_t sortedNum[4],
                    uint16_t validBit, const int32_t repeatTime) {
  simulator::merge(dst, sortList, MrgSort4Info(elementCountList, isExhaustedSuspension, validBit, uint16_t(repeatTime)), "MrgSort");
  if (!isExhaustedSuspension) return;
  uint16_t done[4];
  GetMrgSortResult(done[0], done[1], done[2], done[3]);
  for (int i = 0; i < 4; i++) sortedNum[i] = done[i];
}

// On this chip the scores need no packing, so Concat returns them unchanged.
template <typename T> inline void Concat(LocalTensor<T>& concat, const LocalTensor<T>& src, const LocalTensor<T>&, const int32_t) {
  simulator::sortable<T>("Concat");
  concat = src;
}
template <typename T> inline uint32_t GetSortOffset(const uint32_t elemOffset) { return elemOffset * 8 / uint32_t(sizeof(T)); }
template <typename T> inline uint32_t GetSortLen(const uint32_t elemCount) { return elemCount * 8 / uint32_t(sizeof(T)); }

// Sorts runs of 32; with isFullSort also merges four queues into one until one remains.
template <typename T, bool isFullSort>
inline void Sort(const LocalTensor<T>& dst, const LocalTensor<T>& concat, const LocalTensor<uint32_t>& index, LocalTensor<T>& tmp,
                 const int32_t repeatTime) {
  const char* what = "Sort";
  simulator::sortRuns(dst, concat, index, repeatTime, what);
  if (!isFullSort || repeatTime <= 1) return;
  uint64_t bytes = uint64_t(repeatTime) * 256, has = tmp.high > tmp.address ? tmp.high - tmp.address : 0;
  if (has < bytes)
    simulator::reportViolation("E-SORT-WORK", "Sort needs a work buffer of %llu bytes, but it has %llu", (unsigned long long)bytes, (unsigned long long)has);
  for (uint64_t queue = 32, all = uint64_t(repeatTime) * 32; queue < all; queue *= 4) {
    DataCopy(tmp, dst, uint32_t(bytes / sizeof(T)));
    for (uint64_t start = 0; start < all; start += 4 * queue) {
      uint16_t lengths[4] = {};
      uint32_t at[4];
      int queues = 0;
      for (int q = 0; q < 4; q++) {
        uint64_t from = start + uint64_t(q) * queue;
        lengths[q] = from < all ? uint16_t(std::min(queue, all - from)) : 0;
        at[q] = GetSortOffset<T>(uint32_t(lengths[q] ? from : start));
        queues += lengths[q] > 0;
      }
      if (queues < 2) continue;  // a single queue is already sorted
      MrgSortSrcList<T> list(tmp[at[0]], tmp[at[1]], tmp[at[2]], tmp[at[3]]);
      simulator::merge(dst[GetSortOffset<T>(uint32_t(start))], list, MrgSort4Info(lengths, false, uint16_t((1 << queues) - 1), 1), what);
    }
  }
}

// Splits records into scores and indices, 32 per repeat. Costs as much as two GatherMask instructions, which implement it.
template <typename T>
inline void Extract(const LocalTensor<T>& dstValue, const LocalTensor<uint32_t>& dstIndex, const LocalTensor<T>& sorted,
                    const int32_t repeatTime) {
  const char* what = "Extract";
  simulator::sortable<T>(what);
  if (repeatTime < 0 || repeatTime > 255) simulator::reportViolation("E-SORT-COUNT", "Extract: %d repeats of 32 records, but at most 255 are possible", repeatTime);
  if (repeatTime <= 0) return;
  uint64_t count = uint64_t(repeatTime) * 32;
  simulator::vectorCost(count * 8, 2, 2);
  std::vector<simulator::Record> records = simulator::queueAt(sorted, 0, count, what);
  simulator::target(simulator::V, dstValue, count * sizeof(T), what);
  simulator::target(simulator::V, dstIndex, count * 4, what);
  for (uint64_t i = 0; i < count; i++) {
    dstValue.data()[i] = records[i].score<T>();
    dstIndex.data()[i] = records[i].index();
  }
}

// ---- not on this chip: region proposals

template <typename T> inline void MrgSort4(const LocalTensor<T>&, const MrgSortSrcList<T>&, const MrgSort4Info&) {
  simulator::endRun("E-API-CHIP", "MrgSort4 does not exist on this chip: use MrgSort");
}
template <typename T> inline void RpSort16(const LocalTensor<T>&, const LocalTensor<T>&, const int32_t) {
  simulator::endRun("E-API-CHIP", "RpSort16 does not exist on this chip: use Sort32");
}
template <typename T> inline void ProposalConcat(const LocalTensor<T>&, const LocalTensor<T>&, const int32_t, const int32_t) {
  simulator::endRun("E-API-CHIP", "ProposalConcat does not exist on this chip: use Sort32, which takes scores and indices directly");
}
template <typename T> inline void ProposalExtract(const LocalTensor<T>&, const LocalTensor<T>&, const int32_t, const int32_t) {
  simulator::endRun("E-API-CHIP", "ProposalExtract does not exist on this chip: use Extract");
}

}  // namespace AscendC
