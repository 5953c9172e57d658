// Copies between global and local memory: what of them L2 holds, and where they start.
#pragma once
#include <cstdint>

namespace twin {

struct Region;

struct Traffic {  // one copy's part of global memory, in bytes from the start of an argument
  const Region* region = nullptr;
  uint64_t offset = 0, count = 1, length = 0, pitch = 0;
  double bytes() const { return double(count) * double(length); }
};

// At the start of a launch: bandwidth is shared by so many cores. Blocks that run one after the other each have their part of L2.
void shareMemory(double footprint, double cores, bool together);

// Copies of a tensor need not leave anything in L2 (SetL2CacheHint).
void passBy(const Region* region, bool past);

// Bytes of a copy that L2 does not have.
double beyondL2(const Traffic& rows, bool writes);

// Sectors of 512 bytes that a copy touches, over those it would touch from aligned addresses on.
double spread(const Traffic& rows);

}  // namespace twin
