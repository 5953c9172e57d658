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

// A scalar read: false in a dry execution, which has no data; it is charged then.
bool canRead(const Region* region, uintptr_t at, uint64_t bytes, const char* what) __attribute__((cold, noinline));

// Records that this block reads `bytes` bytes at offset `start` of the region.
void reading(const Region* region, uint64_t start, uint64_t bytes, const char* what);

// Records the range where the launch asks for it. False in a dry execution, which stores nothing.
bool recordWrite(const Region* region, uint64_t start, uint64_t bytes, bool adds);

}  // namespace simulator
