// The cycles of a launch, from the cycles of its blocks.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "chip.h"

namespace simulator {

struct CoreTimes {
  double longest = 0, sum = 0;
  int64_t ran = 0, groups = 0;
  double groupSum = 0;  // cycles of the groups, where they are known
  std::vector<double> waves;  // cycles of the slowest group that ran in each wave
  std::vector<double> aiv, aic;  // cycles of each core, summed over its waves
  CoreTimes() : aiv(size_t(chip().aiv_cores)), aic(size_t(chip().aic_cores)) {}

  void addBlock(double cycles, int64_t blockIndex, bool isCube) {
    longest = std::max(longest, cycles);
    sum += cycles;
    ran++;
    std::vector<double>& cores = isCube ? aic : aiv;
    cores[size_t(blockIndex) % cores.size()] += cycles;
  }
  // The cycles of one group: its slowest core.
  void addGroup(int64_t group, int64_t perWave, double cycles) {
    size_t wave = size_t(group / perWave);
    if (waves.size() <= wave) waves.resize(wave + 1);
    waves[wave] = std::max(waves[wave], cycles);
  }
  // A wave takes as long as its slowest group that ran; a wave in which none ran takes the mean of the others.
  double extrapolated(int64_t groups, int64_t perWave) const {
    double known = 0, count = 0, all = double((groups + perWave - 1) / perWave);
    for (double cycles : waves) known += cycles, count += cycles > 0;
    return count ? known * all / count : 0;
  }
  // The cycles of the busiest core. If only some blocks ran, which are vector blocks, complete waves of the longest block.
  double cycles(int64_t vectorBlocks, int64_t cubeBlocks) const {
    if (ran < vectorBlocks + cubeBlocks) return longest * std::ceil(double(vectorBlocks) / chip().aiv_cores);
    return std::max(*std::max_element(aiv.begin(), aiv.end()), *std::max_element(aic.begin(), aic.end()));
  }
  // The cycles of each core if all groups were spread evenly over the cores that have one; the slowest core of a group counts.
  double even(double groupsInAll, double cores) const {
    return groups ? groupSum / double(groups) * groupsInAll / std::min(groupsInAll, cores) : 0;
  }
};

}  // namespace simulator
