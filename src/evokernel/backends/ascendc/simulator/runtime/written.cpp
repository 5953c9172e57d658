// The bytes of one tensor that a launch writes.
#include "written.h"

#include <algorithm>

#include "core.h"

namespace simulator {

namespace {

constexpr uint64_t WORD = 64;
constexpr uint32_t ALL = ~0u;

uint32_t maskOf(uint64_t low, uint64_t high) { return (high == BLOCK ? ALL : (1u << high) - 1) & ~((1u << low) - 1); }

}  // namespace

Written::Written(uint64_t bytes) : bytes_(bytes), blocks_(bytes / BLOCK / WORD + 1) {}

void Written::addPartly(uint64_t block, uint32_t mask) {
  if (blocks_.get()[block / WORD] >> (block % WORD) & 1) return;
  uint32_t& known = partly_[block];
  known |= mask;
  if (known != ALL) return;
  partly_.erase(block);
  blocks_.get()[block / WORD] |= 1ull << (block % WORD);
}

void Written::add(uint64_t start, uint64_t bytes) {
  uint64_t stop = std::min(start + bytes, bytes_);
  if (start >= stop) return;
  uint64_t first = start / BLOCK, end = stop / BLOCK;  // of the complete blocks
  if (start % BLOCK) {
    addPartly(first, maskOf(start % BLOCK, std::min<uint64_t>(BLOCK, stop - first * BLOCK)));
    if (first++ == end) return;
  }
  if (stop % BLOCK) addPartly(end, maskOf(0, stop % BLOCK));
  while (first < end) {
    uint64_t count = std::min(end - first, WORD - first % WORD);
    blocks_.get()[first / WORD] |= (count == WORD ? ~0ull : (1ull << count) - 1) << (first % WORD);
    first += count;
  }
}

bool Written::overlaps(uint64_t start, uint64_t bytes) const {
  uint64_t stop = std::min(start + bytes, bytes_);
  for (uint64_t block = start / BLOCK; block * BLOCK < stop; block++) {
    if (blocks_.get()[block / WORD] >> (block % WORD) & 1) return true;
    auto found = partly_.empty() ? partly_.end() : partly_.find(block);
    uint64_t low = std::max(start, block * BLOCK) - block * BLOCK, high = std::min(stop, (block + 1) * BLOCK) - block * BLOCK;
    if (found != partly_.end() && found->second & maskOf(low, high)) return true;
  }
  return false;
}

bool Written::isShared(uint64_t start, uint64_t bytes, uint32_t group) {
  if (!adders_) adders_ = std::make_unique<Lazy<uint32_t>>(bytes_ / BLOCK + 1);
  uint64_t stop = std::min(start + bytes, bytes_);
  for (uint64_t block = start / BLOCK; block * BLOCK < stop; block++) {
    uint32_t& adder = adders_->get()[block];
    if (adder && adder != group + 1) return true;
    adder = group + 1;
  }
  return false;
}

std::vector<ByteRange> Written::ranges() const {
  std::vector<ByteRange> found;
  auto append = [&found](uint64_t start, uint64_t stop) {
    if (!found.empty() && found.back().stop == start) found.back().stop = stop;
    else found.push_back({start, stop});
  };
  std::vector<std::pair<uint64_t, uint32_t>> partly(partly_.begin(), partly_.end());
  std::sort(partly.begin(), partly.end());
  auto next = partly.begin();
  auto appendPartly = [&](uint64_t before) {
    for (; next != partly.end() && next->first < before; ++next)
      for (uint64_t byte = 0; byte < BLOCK; byte++)
        if (next->second >> byte & 1) append(next->first * BLOCK + byte, next->first * BLOCK + byte + 1);
  };
  uint64_t words = bytes_ / BLOCK / WORD + 1;
  for (uint64_t word = 0; word < words; word++) {
    uint64_t bits = blocks_.get()[word];
    while (bits) {
      uint64_t low = uint64_t(__builtin_ctzll(bits)), rest = ~(bits >> low);
      uint64_t count = rest ? std::min<uint64_t>(uint64_t(__builtin_ctzll(rest)), WORD - low) : WORD;
      appendPartly(word * WORD + low);
      append((word * WORD + low) * BLOCK, (word * WORD + low + count) * BLOCK);
      bits = low + count == WORD ? 0 : bits >> (low + count) << (low + count);
    }
  }
  appendPartly(~0ull);
  return found;
}

std::vector<ByteRange> complementOf(const std::vector<ByteRange>& ranges, uint64_t bytes) {
  std::vector<ByteRange> rest;
  uint64_t at = 0;
  for (const ByteRange& range : ranges) {
    if (range.start > at) rest.push_back({at, range.start});
    at = range.stop;
  }
  if (at < bytes) rest.push_back({at, bytes});
  return rest;
}

}  // namespace simulator
