#include "pending_copies.h"

#include <algorithm>
#include <cstring>

#include "core.h"

namespace simulator {

namespace {

// Calls f(row, first, end) for the bytes of each row that are in the range from `low` to `high`.
template <typename F> void eachOverlap(const StridedBytes& rows, uint64_t low, uint64_t high, F f) {
  uint64_t row = low > rows.start ? std::min((low - rows.start) / rows.pitch, rows.count - 1) : 0;
  for (; row < rows.count && rows.start + row * rows.pitch < high; row++) {
    uint64_t start = rows.start + row * rows.pitch, first = std::max(low, start), end = std::min(high, start + rows.length);
    if (first < end) f(row, first - start, end - start);
  }
}

// The bytes that a copy has read at this time: complete blocks.
uint64_t bytesRead(const PendingCopy& copy, double time) {
  if (time <= copy.start) return 0;
  double blocks = double(copy.local.count * copy.local.length) / BLOCK;
  return uint64_t((time - copy.start) / (copy.end - copy.start) * blocks) * BLOCK;
}

}  // namespace

void PendingCopies::add(const PendingCopy& copy) {
  if (copies.size() == MOST) copies.erase(copies.begin(), copies.begin() + MOST / 2);
  copies.push_back(copy);
}

void PendingCopies::clear() {
  copies.clear();
  pieces.clear();
}

bool PendingCopies::overwrite(uint32_t known, double begins, uint64_t address, uint64_t bytes) {
  size_t before = pieces.size();
  for (size_t i = copies.size(); i-- > 0;) {
    const PendingCopy& copy = copies[i];
    if (copy.epoch <= known || copy.end <= begins) break;  // and so are all earlier ones
    if (copy.combines) continue;
    uint64_t done = bytesRead(copy, begins);
    eachOverlap(copy.local, address, address + bytes, [&](uint64_t row, uint64_t first, uint64_t end) {
      for (uint64_t at = first, next; at < end; at = next) {
        next = std::min(end, (at / BLOCK + 1) * BLOCK);
        uint64_t global = copy.global.start + row * copy.global.pitch + at;
        if (row * copy.local.length + at < done || isStoredAgain(i, global, next - at)) continue;
        pieces.push_back({copy.local.start + row * copy.local.pitch + at, global, next - at});
      }
    });
  }
  return pieces.size() > before;
}

bool PendingCopies::isStoredAgain(size_t after, uint64_t global, uint64_t bytes) const {
  bool isAgain = false;
  for (size_t i = after + 1; i < copies.size() && !isAgain; i++)
    eachOverlap(copies[i].global, global, global + bytes, [&](uint64_t, uint64_t, uint64_t) { isAgain = true; });
  return isAgain;
}

void PendingCopies::repeat(const uint8_t* local) {
  for (const Piece& piece : pieces) memcpy(reinterpret_cast<void*>(piece.global), local + piece.local, piece.bytes);
  pieces.clear();
}

}  // namespace simulator
