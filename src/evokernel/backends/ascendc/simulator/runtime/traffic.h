// Copies between global and local memory: their L2 hits and their alignment.
#pragma once
#include <cstdint>

namespace simulator {

struct Region;

struct Traffic {  // the range of one copy in global memory, in bytes from the start of an argument
  const Region* region = nullptr;
  uint64_t offset = 0, count = 1, length = 0, pitch = 0;
  double rowCycles = 0;  // minimum cycles of a row, if it is converted on the way
  double bytes() const { return double(count) * double(length); }
};

// At the start of a launch: divides the bandwidth by the number of cores. Blocks that run in sequence each have their part of L2.
void shareMemory(double footprint, double cores, bool together);

// Before a block that runs alone: nothing of earlier blocks is in its part of L2, and the memory of their records is free again.
void forgetLines();

// Copies of a tensor may bypass L2 (SetL2CacheHint).
void passBy(const Region* region, bool past);

// Bytes of a copy that are not in L2.
double beyondL2(const Traffic& rows, bool writes);

// The number of 512-byte sectors that a copy touches, divided by the number for aligned addresses.
double spread(const Traffic& rows);

// The number of cores that read the same address with the same copy of their blocks, estimated from the blocks so far.
double readersOf(const Traffic& rows);

}  // namespace simulator
