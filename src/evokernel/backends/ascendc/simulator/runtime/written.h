// The bytes of one tensor in global memory that a launch writes, at any size of the tensor: one bit per block of 32 bytes, and the blocks that are written in part.
#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "lazy.h"

namespace simulator {

struct ByteRange {
  uint64_t start, stop;
};

class Written {
 public:
  // Without bytes it records nothing.
  explicit Written(uint64_t bytes = 0);
  void add(uint64_t start, uint64_t bytes);
  bool overlaps(uint64_t start, uint64_t bytes) const;
  // Notes that a group adds to these bytes. True if another group does so too.
  bool isShared(uint64_t start, uint64_t bytes, uint32_t group);
  // Sorted, disjoint and not adjacent.
  std::vector<ByteRange> ranges() const;
  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t bytes_;
  Lazy<uint64_t> blocks_;
  std::unique_ptr<Lazy<uint32_t>> adders_;         // by block: 1 + the group that adds to it
  std::unordered_map<uint64_t, uint32_t> partly_;  // by block: a bit per byte
  void addPartly(uint64_t block, uint32_t mask);
};

// What the ranges, which are sorted and disjoint, leave of [0, bytes).
std::vector<ByteRange> complementOf(const std::vector<ByteRange>& ranges, uint64_t bytes);

}  // namespace simulator
