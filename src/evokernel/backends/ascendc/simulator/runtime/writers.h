// Tracks the writers of global memory. If two cores write the same bytes without an order, the later write stays: in the simulator
// always the same one, on a device any. The same applies to a core that reads, or adds to, data that another core writes.
#pragma once
#include <cstdint>

namespace simulator {

struct Region;

// Resets all records before the first block runs.
void watchWriters();

// Orders all writes so far before everything that follows.
void blocksMet();

// Records that this block will write `bytes` bytes from `from` at offset `start` of the region.
void writing(const Region* region, uint64_t start, const void* from, uint64_t bytes, const char* what);

// Records that this block reads `bytes` bytes at offset `start` of the region.
void reading(const Region* region, uint64_t start, uint64_t bytes, const char* what);

}  // namespace simulator
