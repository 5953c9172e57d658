// The bytes that every group of a launch writes, known from a dry execution: the parts of a later execution need not be executed dry to find them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "written.h"

namespace simulator {

class GroupRanges {
 public:
  void clear();
  // A write of a group to the tensor at an address, which has `size` bytes.
  void add(int64_t group, uintptr_t tensor, uint64_t size, uint64_t start, uint64_t bytes);
  // What groups wrote to `bytes` bytes of a tensor from `skip` on, they wrote to another tensor.
  void copy(uintptr_t to, uintptr_t from, uint64_t skip, uint64_t bytes);
  // The group ran to its end, and moved these bytes.
  void finish(int64_t group, double bytesMoved);

  // Whether the writes of a group are known; there may be too many of them to keep.
  bool knows(int64_t group) const { return moved.count(group) && !isFull; }
  double bytesMoved(int64_t group) const;
  // Adds the writes of a group to the records of tensors, which `recordAt` returns for an address and a size.
  template <typename F> void addTo(int64_t group, F recordAt) const {
    auto found = ranges.find(group);
    if (found == ranges.end()) return;
    for (const auto& tensor : found->second) {
      Written& record = recordAt(tensor.first, sizes.at(tensor.first));
      for (const ByteRange& range : tensor.second) record.add(range.start, range.stop - range.start);
    }
  }

 private:
  std::map<int64_t, std::map<uintptr_t, std::vector<ByteRange>>> ranges;
  std::map<uintptr_t, uint64_t> sizes;  // of the tensors
  std::map<int64_t, double> moved;
  size_t count = 0;
  bool isFull = false;
};

}  // namespace simulator
