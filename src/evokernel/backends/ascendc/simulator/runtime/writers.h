// Who wrote which bytes of global memory. Two cores that write the same bytes, with nothing that orders them, leave whichever was later: here
// always the same one, on a device any. So does a core that reads, or adds to, what another one writes.
#pragma once
#include <cstdint>

namespace twin {

struct Region;

// Before the first block runs: nobody has written anything.
void watchWriters();

// What was written so far is in order with everything that follows.
void blocksMet();

// This block writes `bytes` from `from` to `start` bytes behind the region's beginning. They are not there yet.
void writing(const Region* region, uint64_t start, const void* from, uint64_t bytes, const char* what);

// This block reads `bytes` from `start` bytes behind the region's beginning on.
void reading(const Region* region, uint64_t start, uint64_t bytes, const char* what);

}  // namespace twin
