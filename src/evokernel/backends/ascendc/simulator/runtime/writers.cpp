// Who wrote which bytes of global memory, per 32 bytes: the block that wrote there last and, where it did not write all of them, which.
// Blocks are numbered in the order in which they first write, anew after every meeting, so a number also tells whether a meeting lies between.
#include "writers.h"

#include <cstdlib>
#include <memory>
#include <vector>

#include "core.h"

namespace twin {

namespace {

constexpr uint32_t ALL = ~0u, PARTLY = 1u << 31;

struct Release {
  void operator()(uint32_t* table) const { free(table); }
};
std::vector<std::unique_ptr<uint32_t, Release>> kept;
uint32_t numbers = 0, firstSinceMeeting = 1;

uint64_t blocksOf(const Region& region) { return (region.high - region.low) / BLOCK + 2; }

// One of the core's own, which it got since the last meeting.
uint32_t mine() {
  if (core->writer < firstSinceMeeting) core->writer = ++numbers;
  return core->writer;
}

struct Piece {  // of a write, within one block of 32 bytes
  uint64_t block;
  uint32_t low, high;
  const uint8_t* from;
  uint32_t mask() const { return (high == BLOCK ? ALL : (1u << high) - 1) & ~((1u << low) - 1); }
};

// Where both wrote the same, as cores do whose shares overlap at the end, either may be later.
void compare(const Region& region, const Piece& piece, uint32_t both, const char* what) {
  auto there = reinterpret_cast<const uint8_t*>(region.low) + piece.block * BLOCK;
  for (uint32_t i = piece.low; i < piece.high; i++) {
    if (!(both >> i & 1) || there[i] == piece.from[i - piece.low]) continue;
    broken("E-GM-RACE", "%s: byte %llu of '%s' was written by another block, with another value, and nothing orders the two", what,
           (unsigned long long)(piece.block * BLOCK + i), region.name);
    return;
  }
}

// A block that somebody else wrote since the last meeting, or that is not written whole.
void shared(const Region& region, const Piece& piece, uint32_t me, const char* what) {
  uint64_t size = blocksOf(region);
  uint32_t& last = region.writers[piece.block];
  uint32_t& own = region.writers[size + piece.block];         // bytes that the last one wrote, where it is marked PARTLY
  uint32_t& others = region.writers[2 * size + piece.block];  // and those that others wrote before
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

// Bytes of a piece that another block wrote last, since the last meeting.
uint32_t foreign(const Region& region, const Piece& piece) {
  uint64_t size = blocksOf(region);
  uint32_t last = region.writers[piece.block], number = last & ~PARTLY;
  if (number < firstSinceMeeting || last == core->writer) return 0;
  uint32_t own = last & PARTLY ? region.writers[size + piece.block] : ALL, others = last & PARTLY ? region.writers[2 * size + piece.block] : 0;
  return (number == core->writer ? others & ~own : own | others) & piece.mask();
}

template <typename F> void eachPiece(uint64_t start, uint64_t bytes, F f) {
  for (uint64_t at = start, end = start + bytes; at < end;) {
    uint64_t block = at / BLOCK, until = std::min(end, (block + 1) * BLOCK);
    f(Piece{block, uint32_t(at - block * BLOCK), uint32_t(until - block * BLOCK), nullptr}, at - start);
    at = until;
  }
}

}  // namespace

void watchWriters() {
  numbers = 0;
  firstSinceMeeting = 1;
  kept.clear();
  if (level == FAST) return;
  for (Region& region : run.regions) {
    if (!region.writable) continue;
    kept.emplace_back(static_cast<uint32_t*>(calloc(3 * blocksOf(region), sizeof(uint32_t))));  // of which few pages are ever touched
    region.writers = kept.back().get();
  }
}

void blocksMet() { firstSinceMeeting = numbers + 1; }

void writing(const Region* region, uint64_t start, const void* from, uint64_t bytes, const char* what) {
  if (!region || !region->writers || !bytes) return;
  uint32_t me = mine();
  eachPiece(start, bytes, [&](Piece piece, uint64_t skip) {
    piece.from = static_cast<const uint8_t*>(from) + skip;
    uint32_t& last = region->writers[piece.block];
    bool isWhole = piece.high - piece.low == BLOCK;
    if (isWhole && (last & ~PARTLY) < firstSinceMeeting) last = me;
    else if (last != me) shared(*region, piece, me, what);
  });
}

void reading(const Region* region, uint64_t start, uint64_t bytes, const char* what) {
  if (!region || !region->writers || !bytes) return;
  bool isTold = false;
  eachPiece(start, bytes, [&](const Piece& piece, uint64_t) {
    uint32_t theirs = isTold ? 0 : foreign(*region, piece);
    if (!theirs) return;
    isTold = true;
    broken("E-GM-RACE", "%s: byte %llu of '%s' was written by another block, and nothing says that it is there already", what,
           (unsigned long long)(piece.block * BLOCK + uint64_t(__builtin_ctz(theirs))), region->name);
  });
}

}  // namespace twin
