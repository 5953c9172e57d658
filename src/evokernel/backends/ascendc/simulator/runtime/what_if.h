// Replays the recorded schedule of a launch with one thing made free, to find what its cycles are worth.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core_times.h"
#include "record.h"

namespace simulator {

// One replay. A replay of nothing free takes as long as the launch.
struct WhatIf {
  std::string name;
  uint32_t freePipes = 0;          // one bit per pipe
  bool freesCopies = false;        // all copies from and to global memory, also those of products
  bool freesProducts = false;      // everything on the cube core
  bool freesAccesses = false;      // GetValue and SetValue, with their waits
  bool freesReductions = false;    // instructions that combine lanes
  bool freesCalls = false;         // the fixed part of short vector instructions, which is most of them
  bool freesLibrary = false;
  bool freesMeetings = false;      // the cost of SyncAll and of flags between cores; the cores still wait for each other, if one reads what another writes
  bool freesBarriers = false;      // barriers order only along the flow of the data
  bool doublesBuffers = false;     // every buffer exists twice
  bool aligns = false;             // all copies are aligned
  bool movesOnce = false;          // every byte of an argument moves once
  bool spreads = false;            // the memory serves all cores of the chip
  bool evens = false;              // the cores arrive at SyncAll at the same time
  double perCall = 1;              // calls whose fixed costs become one
  uint32_t site = 0;               // everything that one call in the kernel does; the name is then its work
};

struct Replayed {  // of one core
  double end = 0, cube = 0;
};

// The cycles of every core that the steps mention.
std::vector<Replayed> replay(const std::vector<Step>& steps, const WhatIf& what);

struct RanBlock {
  double end = 0, cube = 0;  // its cycles, and those of the cube core for it
  int64_t index = 0;
  bool isCube = false;
};

// The what-ifs of one launch.
class WhatIfs {
 public:
  // Before the first block of a launch: `blocks` of them run on `cores` of the chip's cores of their kind.
  void start(double blocks, double cores, double allCores);
  // Before a block, or before blocks that run together.
  void begin();
  // After them, in the order of their numbers.
  void end(const std::vector<RanBlock>& ran, uint32_t ubPeak);
  // After all blocks of a group.
  void settle(bool arePairs, int64_t perWave);

  std::vector<WhatIf> all;       // the first is the launch as it was
  std::vector<CoreTimes> times;  // one for each

 private:
  void choose(const std::vector<Step>& steps, uint32_t ubPeak);
  Replayed cyclesOf(size_t what, size_t core, const RanBlock& ran, const std::vector<std::vector<Replayed>>* known) const;
  std::vector<RanBlock> pending;
  std::vector<std::vector<Replayed>> pendingEnds;  // by block and what-if
  std::vector<double> sums;                        // replayed cycles, by what-if
  double blockCount = 1, coreCount = 1, coresOfChip = 1, spent = 0;
  bool isOver = false;
};

WhatIfs& whatIfs();

}  // namespace simulator
