// The writers of global memory, per 32 bytes: the block that wrote last and, if it wrote only some of the bytes, which ones.
// Blocks get numbers in the order of their first write, and new numbers after every synchronization, so a number also shows whether a synchronization lies between.
#include "writers.h"

#include <algorithm>
#include <vector>

#include "core.h"
#include "parts.h"

namespace simulator {

namespace {

constexpr uint32_t ALL = ~0u, PARTLY = 1u << 31;

std::vector<Lazy<uint32_t>> kept;
uint32_t numbers = 0, firstSinceMeeting = 1;

uint64_t blocksOf(const Region& region) { return (region.high - region.low) / BLOCK + 2; }

// The core's number, if it has one since the last synchronization.
uint32_t mine() {
  if (core->writer < firstSinceMeeting) core->writer = ++numbers;
  return core->writer;
}

struct Piece {  // part of a write within one 32-byte block
  uint64_t block;
  uint32_t low, high;
  const uint8_t* from;
  uint32_t mask() const { return (high == BLOCK ? ALL : (1u << high) - 1) & ~((1u << low) - 1); }
};

// If both write equal values, as cores with overlapping tails do, the order is irrelevant.
void compare(const Region& region, const Piece& piece, uint32_t both, const char* what) {
  auto there = reinterpret_cast<const uint8_t*>(region.low) + piece.block * BLOCK;
  for (uint32_t i = piece.low; i < piece.high; i++) {
    if (!(both >> i & 1) || there[i] == piece.from[i - piece.low]) continue;
    reportViolation("E-GM-RACE", "%s: another block wrote a different value to byte %llu of '%s', but nothing orders the two blocks", what,
           (unsigned long long)(piece.block * BLOCK + i), region.name);
    return;
  }
}

// A 32-byte block that another core wrote since the last synchronization, or that is only partly written.
void shared(const Region& region, const Piece& piece, uint32_t me, const char* what) {
  uint64_t size = blocksOf(region);
  uint32_t& last = region.writers[piece.block];
  uint32_t& own = region.writers[size + piece.block];         // bytes of the last writer, if it is marked PARTLY
  uint32_t& others = region.writers[2 * size + piece.block];  // and bytes of earlier writers
  uint32_t number = last & ~PARTLY;
  if (number < firstSinceMeeting) {
    own = others = 0;
  } else if (number != me) {
    others = last & PARTLY ? others | own : ALL;
    own = 0;
  }
  if (uint32_t both = others & piece.mask()) compare(region, piece, both, what);
  own |= piece.mask();
  last = own == ALL ? me : me | PARTLY;
}

// Bytes of a piece whose last writer since the last synchronization is another block.
uint32_t foreign(const Region& region, const Piece& piece) {
  uint64_t size = blocksOf(region);
  uint32_t last = region.writers[piece.block], number = last & ~PARTLY;
  if (number < firstSinceMeeting || last == core->writer) return 0;
  uint32_t own = last & PARTLY ? region.writers[size + piece.block] : ALL, others = last & PARTLY ? region.writers[2 * size + piece.block] : 0;
  return (number == core->writer ? others & ~own : own | others) & piece.mask();
}

// f returns where to continue, or 0 for the next piece.
template <typename F> void eachPiece(uint64_t start, uint64_t bytes, F f) {
  for (uint64_t at = start, end = start + bytes; at < end;) {
    uint64_t block = at / BLOCK, until = std::min(end, (block + 1) * BLOCK);
    uint64_t next = f(Piece{block, uint32_t(at - block * BLOCK), uint32_t(until - block * BLOCK), nullptr}, at - start);
    at = std::max(next, until);
  }
}

// Whether no block of these was written since the last synchronization.
bool isUnwritten(const uint32_t* block, const uint32_t* end) {
  uint32_t isWritten = 0;
  for (; block < end; block++) isWritten |= uint32_t((*block & ~PARTLY) >= firstSinceMeeting);
  return !isWritten;
}

}  // namespace

void watchWriters() {
  numbers = 0;
  firstSinceMeeting = 1;
  kept.clear();
  if (level == FAST || run.isDry) return;
  for (Region& region : run.regions) {
    if (!region.writable) continue;
    kept.emplace_back(3 * blocksOf(region));
    region.writers = kept.back().get();
    region.watched = true;
  }
}

void blocksMet() { firstSinceMeeting = numbers + 1; }

void writing(const Region* region, uint64_t start, const void* from, uint64_t bytes, const char* what) {
  if (!region || !region->writers || !bytes || run.isDry) return;
  uint32_t me = mine();
  uint64_t first = (start + BLOCK - 1) / BLOCK, end = (start + bytes) / BLOCK;  // whole blocks
  bool areUnwritten = first < end && isUnwritten(region->writers + first, region->writers + end);
  if (areUnwritten) std::fill(region->writers + first, region->writers + end, me);
  eachPiece(start, bytes, [&](Piece piece, uint64_t skip) {
    if (areUnwritten && piece.block == first) return end * BLOCK;
    piece.from = static_cast<const uint8_t*>(from) + skip;
    uint32_t& last = region->writers[piece.block];
    bool isWhole = piece.high - piece.low == BLOCK;
    if (isWhole && (last & ~PARTLY) < firstSinceMeeting) last = me;
    else if (last != me) shared(*region, piece, me, what);
    return uint64_t(0);
  });
}

bool canRead(const Region* region, uintptr_t at, uint64_t bytes, const char* what) {
  reading(region, at - region->low, bytes, what);
  if (!run.isDry) return true;
  core->scalarGm(at);
  guess();
  return false;
}

bool recordWrite(const Region* region, uint64_t start, uint64_t bytes, bool adds) {
  if (run.isDry) checkDeadline();
  if (core->isLeftOut) return false;
  noteWrite(*region->written, start, bytes, adds || core->atomic != Atomic::NONE);
  run.recorded += bytes;
  return !run.isDry;
}

void reading(const Region* region, uint64_t start, uint64_t bytes, const char* what) {
  if (!region || !region->writers || !bytes || run.isDry) return;
  bool isTold = false;
  eachPiece(start, bytes, [&](const Piece& piece, uint64_t) {
    uint32_t theirs = isTold ? 0 : foreign(*region, piece);
    if (!theirs) return uint64_t(0);
    isTold = true;
    reportViolation("E-GM-RACE", "%s: another block wrote byte %llu of '%s', but nothing orders that write before this access", what,
           (unsigned long long)(piece.block * BLOCK + uint64_t(__builtin_ctz(theirs))), region->name);
    return uint64_t(0);
  });
}

}  // namespace simulator
