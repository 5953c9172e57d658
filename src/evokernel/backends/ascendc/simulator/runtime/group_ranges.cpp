#include "group_ranges.h"

#include <algorithm>

namespace simulator {

namespace {

constexpr size_t MOST_RANGES = 8u << 20;  // of all groups

}  // namespace

void GroupRanges::clear() {
  ranges.clear();
  sizes.clear();
  moved.clear();
  count = 0;
  isFull = false;
}

void GroupRanges::add(int64_t group, uintptr_t tensor, uint64_t size, uint64_t start, uint64_t bytes) {
  if (isFull || start >= size) return;
  bytes = std::min(bytes, size - start);
  sizes[tensor] = size;
  std::vector<ByteRange>& own = ranges[group][tensor];
  if (!own.empty() && own.back().start <= start && start <= own.back().stop) {
    own.back().stop = std::max(own.back().stop, start + bytes);
    return;
  }
  own.push_back({start, start + bytes});
  if (++count <= MOST_RANGES) return;
  ranges.clear();
  isFull = true;
}

void GroupRanges::copy(uintptr_t to, uintptr_t from, uint64_t skip, uint64_t bytes) {
  if (to == from) return;
  sizes[to] = bytes;
  for (auto& group : ranges) {
    auto found = group.second.find(from);
    if (found == group.second.end()) continue;
    std::vector<ByteRange>& target = group.second[to];
    for (const ByteRange& range : found->second) {
      uint64_t start = std::max(range.start, skip), stop = std::min(range.stop, skip + bytes);
      if (start < stop) target.push_back({start - skip, stop - skip});
    }
    count += target.size();
  }
}

void GroupRanges::finish(int64_t group, double bytesMoved) { moved[group] += bytesMoved; }

double GroupRanges::bytesMoved(int64_t group) const {
  auto found = moved.find(group);
  return found == moved.end() ? 0 : found->second;
}

}  // namespace simulator
