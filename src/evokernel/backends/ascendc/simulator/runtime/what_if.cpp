// A replay follows the rules of Core, Traffic and Matmul with the recorded costs; times only add up and wait, so that a lower cost never delays anything.
#include "what_if.h"

#include <cstring>
#include <map>
#include <unordered_map>

#include "core.h"

namespace simulator {

namespace {

constexpr double MOST_REPLAYED = 6e6;  // steps of all replays of a launch
constexpr size_t MOST_SITES = 40, MOST_KNOWN = 64;
constexpr double LARGE_COPY = 32 << 10, SHARED_BYTES = 16 << 10;
constexpr uint32_t COPIES = 1u << MTE2 | 1u << MTE3;

struct Slot {  // a flag, product or message: its time and the one before
  double time = 0, before = 0;
};

struct CoreState {
  double time[PIPES] = {}, late[PIPES] = {}, hbmPort = 0, l2Port = 0, cube = 0;
  double finished(int pipe) const { return std::max(time[pipe], late[pipe]); }
  double latest() const {
    double end = 0;
    for (int pipe = 0; pipe < PIPES; pipe++) end = std::max(end, finished(pipe));
    return end;
  }
};

// The share of the copies of each argument that remains if every byte moves once.
std::vector<double> needed;
bool exchangesData = true;  // an argument is both written and read, so that one core may read what another one writes
double portScale = 1;  // of a core's share of the bandwidth, if all cores of the chip had a block

double meanOfPositive(const std::vector<double>& values) {
  double sum = 0, count = 0;
  for (double value : values) sum += value, count += value > 0;
  return count ? sum / count : 0;
}

struct Replay {
  const WhatIf& what;
  const Chip& c = chip();
  std::vector<CoreState> cores;
  std::vector<Slot> slots;
  std::map<uint32_t, std::vector<double>> arrivals;  // at each SyncAll, by block: its last core

  Replay(const WhatIf& wanted, uint32_t slotsUsed, uint32_t coreCount) : what(wanted), cores(coreCount), slots(slotsUsed + 1) {}

  // The vector cores come first, two for each cube core if there are both kinds.
  size_t blockOf(uint32_t core) const {
    size_t vectors = cores.size() / 3 * 2;
    return !run.isMix ? core : core < vectors ? core / 2 : core - vectors;
  }

  bool isFree(int pipe) const { return what.freePipes >> pipe & 1; }
  double scalarCost(double cycles) const { return isFree(S) ? 0 : cycles; }
  double callCost(double cycles) const { return cycles / what.perCall; }

  void issue(CoreState& at, const Step& step, bool isSite) {
    bool isFixedFree = what.freesCalls && step.pipe == V && step.cycles < 2 * step.fixed;
    double issued = step.pipe == S || isSite || isFixedFree ? 0 : scalarCost(callCost(c.issue));
    double cycles = step.cycles - step.fixed + (isFixedFree ? 0 : callCost(step.fixed));
    bool isProduct = step.pipe == M || step.pipe == MTE1 || step.pipe == FIX;
    if (isSite || isFree(step.pipe) || (what.freesReductions && step.flags & REDUCTION) || (what.freesProducts && isProduct)) cycles = 0;
    at.time[S] += issued;
    at.time[step.pipe] = std::max(at.time[step.pipe], at.time[S]) + cycles;
  }

  void move(CoreState& at, const Step& step, bool isSite) {
    bool gone = isSite || isFree(step.pipe) || what.freesCopies || (what.freesProducts && step.pipe == FIX);
    double latency = callCost(c.copy(0)), share = 1;
    if (what.aligns) share = step.fixed;
    double kept = what.movesOnce && step.region < needed.size() ? needed[step.region] : 1;
    at.time[S] += isSite ? 0 : scalarCost(callCost(c.issue)) * kept;
    double start = std::max(at.time[step.pipe], at.time[S]);
    if (gone || kept <= 0) {
      at.time[step.pipe] = std::max(at.time[step.pipe], start);
      at.late[step.pipe] = std::max(at.late[step.pipe], at.time[step.pipe]);
      return;
    }
    double ports = what.spreads ? portScale : 1;
    at.hbmPort += share * kept * step.b * ports;
    at.l2Port += share * kept * step.c * ports;
    double alone = share * step.cycles, stream = share * step.a;
    if (what.perCall > 1) alone = std::min(alone, alone * c.copy(step.d * what.perCall) / c.copy(step.d) / what.perCall);
    alone *= kept;
    stream *= kept;
    double end = std::max({start + alone, at.hbmPort, at.l2Port, at.late[step.pipe]});
    at.time[step.pipe] = std::min(end, std::max(start + std::max(callCost(c.copy_start) * kept, stream), end - latency));
    at.late[step.pipe] = end;
  }

  void product(CoreState& at, const Step& step, bool isSite) {
    bool gone = isSite || what.freesProducts;
    double into = isFree(MTE2) || what.freesCopies ? 0 : what.aligns ? step.fixed : step.b;
    double leaving = isFree(FIX) || what.freesCopies ? 0 : step.d;
    double total = gone ? 0 : c.copy(0) + std::max({isFree(M) ? 0 : step.a, into, isFree(MTE1) ? 0 : step.c}) + leaving;
    at.time[M] = std::max(at.time[M], at.time[S]) + total;
    at.cube += total;
    slots[step.slot].time = at.time[M];
  }

  void forward(CoreState& at, int from, int to) { at.time[to] = std::max(at.time[to], at.finished(from)); }

  void barrier(CoreState& at, const Step& step, bool isSite) {
    bool isAll = step.other == PIPES;
    if (what.freesMeetings && !exchangesData && step.flags & MEETING) return;
    if (isSite || what.freesBarriers || what.doublesBuffers) {
      if (!isAll) return;
      forward(at, MTE2, V), forward(at, V, MTE3), forward(at, MTE2, MTE1), forward(at, MTE1, M), forward(at, M, FIX);
      return;
    }
    double flag = callCost(c.flag);
    if (!isAll) {
      at.time[step.pipe] = std::max(at.finished(step.pipe), at.time[S]) + flag;
      return;
    }
    double latest = at.latest() + flag;
    for (double& time : at.time) time = latest;
  }

  void wait(CoreState& at, const Step& step, bool isSite) {
    const Slot& slot = slots[step.slot];
    double since = what.doublesBuffers && step.other ? slot.before : slot.time;
    at.time[step.pipe] = std::max(at.time[step.pipe], since) + (isSite ? 0 : callCost(c.handshake));
  }

  void scalar(CoreState& at, const Step& step, bool isSite) {
    if (isSite || (what.freesAccesses && step.flags & ACCESS)) return;
    if (step.other < PIPES) at.time[S] = std::max(at.time[S], at.finished(step.other));
    at.time[S] += scalarCost(step.cycles);
  }

  void meet(CoreState& at, const Step& step) {
    if (what.freesMeetings && !exchangesData) return;
    Slot& slot = slots[step.slot];
    if (step.kind == StepKind::ARRIVE) {
      double now = at.latest();
      slot.time = std::max(slot.time, now);
      if (what.evens) {
        std::vector<double>& ofBlocks = arrivals[step.slot];
        size_t block = blockOf(step.core);
        if (ofBlocks.size() <= block) ofBlocks.resize(block + 1);
        ofBlocks[block] = std::max(ofBlocks[block], now);
      }
      return;
    }
    double since = what.evens ? meanOfPositive(arrivals[step.slot]) : slot.time;
    double left = since + (what.freesMeetings ? 0 : c.sync_all);
    for (double& time : at.time) time = left;
  }

  void follow(const Step& step) {
    CoreState& at = cores[step.core];
    bool isSite = what.site && step.site == what.site;
    switch (step.kind) {
      case StepKind::ISSUE: return issue(at, step, isSite);
      case StepKind::MOVE: return move(at, step, isSite);
      case StepKind::SCALAR: return scalar(at, step, isSite);
      case StepKind::PRODUCT: return product(at, step, isSite);
      case StepKind::BARRIER: return barrier(at, step, isSite);
      case StepKind::WAIT: return wait(at, step, isSite);
      case StepKind::ARRIVE: case StepKind::LEAVE: return meet(at, step);
      case StepKind::RAISE:
        slots[step.slot] = {at.finished(step.pipe), slots[step.slot].time};
        at.time[step.pipe] += isSite ? 0 : callCost(c.handshake);
        return;
      case StepKind::ORDER:
        if (!isSite) at.time[step.pipe] = std::max(at.time[step.pipe], at.time[step.other]) + callCost(step.cycles);
        return;
      case StepKind::LIBRARY: at.time[S] += what.freesLibrary || isSite ? 0 : c.matmul_start; return;
      case StepKind::RESULT: at.time[S] = std::max(at.time[S], slots[step.slot].time); return;
      case StepKind::STAMP: slots[step.slot].time = at.time[step.pipe]; return;
      case StepKind::MERGE:
        slots[step.slot].time = std::max(slots[step.slot].time, slots[step.region].time + (what.freesMeetings ? 0 : step.cycles));
        return;
      case StepKind::RECEIVE:
        at.time[step.pipe] = std::max(at.time[step.pipe], slots[step.slot].time) + (what.freesMeetings || isSite ? 0 : step.cycles);
        return;
    }
  }
};

uint32_t coresIn(const std::vector<Step>& steps) {
  uint32_t most = 0;
  for (const Step& step : steps) most = std::max(most, step.core);
  return most + 1;
}
uint32_t slotsIn(const std::vector<Step>& steps) {
  uint32_t most = 0;
  for (const Step& step : steps) most = std::max(most, step.slot);
  return most;
}

// Every byte of an argument moves once, in all blocks together; a small argument once in each block. The workspace is not needed at all.
void findNeeds(const std::vector<Step>& steps, double blocks, double cores) {
  std::vector<double> moved(run.regions.size() + 1);
  for (const Step& step : steps)
    if (step.kind == StepKind::MOVE && step.region < moved.size()) moved[step.region] += step.d;
  needed.assign(moved.size(), 1);
  for (size_t i = 1; i < moved.size(); i++) {
    const Region& region = run.regions[i - 1];
    double bytes = double(region.high - region.low);
    bool isWorkspace = reinterpret_cast<uint8_t*>(region.low) == run.workspace;
    double share = isWorkspace ? 0 : bytes <= SHARED_BYTES ? bytes * cores : bytes * cores / blocks;
    if (moved[i] > share) needed[i] = share / moved[i];
  }
}

void findExchange(const std::vector<Step>& steps) {
  std::vector<uint8_t> access(run.regions.size() + 1);
  exchangesData = false;
  for (const Step& step : steps) {
    bool isUnknown = step.kind == StepKind::PRODUCT || step.kind == StepKind::STAMP || step.flags & GLOBAL;
    if (step.kind == StepKind::MOVE && step.region < access.size()) isUnknown = (access[step.region] |= step.pipe == MTE2 ? 1 : 2) == 3;
    if (isUnknown) exchangesData = true;
  }
}

WhatIf named(const char* name) {
  WhatIf what;
  what.name = name;
  return what;
}

std::vector<WhatIf> causes() {
  std::vector<WhatIf> all{named("nothing")};
  for (int pipe = 0; pipe < PIPES; pipe++) {
    all.push_back(named(pipeName(pipe)));
    all.back().freePipes = 1u << pipe;
  }
  auto add = [&all](const char* name, bool WhatIf::*flag) {
    all.push_back(named(name));
    all.back().*flag = true;
  };
  add("copies", &WhatIf::freesCopies), add("products", &WhatIf::freesProducts), add("accesses", &WhatIf::freesAccesses);
  add("reductions", &WhatIf::freesReductions), add("calls", &WhatIf::freesCalls), add("library", &WhatIf::freesLibrary);
  add("meetings", &WhatIf::freesMeetings), add("barriers", &WhatIf::freesBarriers), add("buffers", &WhatIf::doublesBuffers);
  add("alignment", &WhatIf::aligns), add("traffic", &WhatIf::movesOnce), add("cores", &WhatIf::spreads), add("even", &WhatIf::evens);
  all.push_back(named("tiles"));
  return all;
}

// How many calls could become one: as many as the local memory has room for, if the copies are small and there are enough of them.
double mergeableCalls(const std::vector<Step>& steps, uint32_t ubPeak) {
  double bytes = 0, copies = 0;
  std::unordered_map<uint32_t, double> counts;
  for (const Step& step : steps) {
    if (step.kind != StepKind::MOVE || step.core || step.d <= 0) continue;
    bytes += step.d, copies++;
    counts[step.site]++;
  }
  if (!copies || !ubPeak) return 1;
  double most = 0;
  for (const auto& one : counts) most = std::max(most, one.second);
  return std::max(1.0, std::min({chip().ub_bytes / ubPeak, LARGE_COPY / (bytes / copies), most / 2}));
}

// The kind of work of a step, to name the work of a call in the kernel: a pipe or another cause.
std::string workOf(const Step& step) {
  switch (step.kind) {
    case StepKind::SCALAR: return step.flags & ACCESS ? "accesses" : "S";
    case StepKind::PRODUCT: case StepKind::RESULT: return "products";
    case StepKind::LIBRARY: return "library";
    case StepKind::BARRIER: return "barriers";
    case StepKind::ARRIVE: case StepKind::LEAVE: case StepKind::STAMP: case StepKind::MERGE: case StepKind::RECEIVE: return "meetings";
    default: return step.flags & REDUCTION ? "reductions" : pipeName(step.pipe);
  }
}

uint64_t hashOf(const std::vector<Step>& steps) {
  uint64_t hash = 1469598103934665603ull;
  auto mix = [&hash](uint64_t word) { hash = (hash ^ word) * 1099511628211ull, hash ^= hash >> 29; };
  for (const Step& step : steps) {
    mix(uint64_t(step.kind) | uint64_t(step.pipe) << 8 | uint64_t(step.other) << 16 | uint64_t(step.flags) << 24 | uint64_t(step.site) << 32);
    mix(step.slot | uint64_t(step.core) << 32);
    for (double value : {step.cycles, step.fixed, step.a, step.b, step.c, step.d}) {
      uint64_t bits;
      memcpy(&bits, &value, sizeof bits);
      mix(bits);
    }
  }
  return hash;
}

std::map<uint64_t, std::vector<std::vector<Replayed>>> knownResults;  // by the hash of the steps: blocks often do the same

}  // namespace

std::vector<Replayed> replay(const std::vector<Step>& steps, const WhatIf& what) {
  Replay one(what, slotsIn(steps), coresIn(steps));
  for (const Step& step : steps) one.follow(step);
  std::vector<Replayed> ends;
  for (const CoreState& at : one.cores) ends.push_back({at.latest(), at.cube});
  return ends;
}

WhatIfs& whatIfs() {
  static WhatIfs one;
  return one;
}

void WhatIfs::start(double blocks, double cores, double allCores) {
  all = causes();
  times.assign(all.size(), CoreTimes());
  sums.assign(all.size(), 0);
  knownResults.clear();
  blockCount = blocks, coreCount = cores, coresOfChip = allCores;
  portScale = std::max(1.0, allCores / cores);
  spent = 0;
  isOver = false;
  startCalls();
  pending.clear();
  pendingEnds.clear();
}

void WhatIfs::begin() {
  isOver = isOver || !hasCallsLeft();
  if (!isOver) startRecord();
}

// The calls in the kernel that take most cycles.
void WhatIfs::choose(const std::vector<Step>& steps, uint32_t ubPeak) {
  findNeeds(steps, blockCount, double(coresIn(steps)));
  findExchange(steps);
  if (sums[0] > 0) return;
  all.back().perCall = mergeableCalls(steps, ubPeak);
  std::unordered_map<uint32_t, double> cycles;
  std::unordered_map<uint32_t, std::map<std::string, double>> works;
  for (const Step& step : steps) {
    double own = step.cycles + (step.kind == StepKind::PRODUCT ? std::max({step.a, step.b, step.c}) + step.d : 0) + 1;
    cycles[step.site] += own;
    works[step.site][workOf(step)] += own;
  }
  std::vector<std::pair<double, uint32_t>> order;
  for (const auto& one : cycles)
    if (one.first && !siteAddresses(one.first).empty()) order.push_back({-one.second, one.first});
  std::sort(order.begin(), order.end());
  double affordable = MOST_REPLAYED / double(steps.size() + 1) - double(all.size());
  for (size_t i = 0; i < order.size() && i < MOST_SITES && double(i) < affordable; i++) {
    all.push_back(WhatIf());
    all.back().site = order[i].second;
    double most = 0;
    for (const auto& work : works[order[i].second])
      if (work.second > most) most = work.second, all.back().name = work.first;
    times.push_back(times[0]);
    sums.push_back(0);
  }
}

void WhatIfs::end(const std::vector<RanBlock>& ran, uint32_t ubPeak) {
  const std::vector<Step>& done = steps();
  isRecording = false;
  const std::vector<std::vector<Replayed>>* known = nullptr;
  if (!isOver && !done.empty()) {
    choose(done, ubPeak);
    auto& results = knownResults[hashOf(done)];
    if (results.empty()) {
      for (const WhatIf& what : all) results.push_back(replay(done, what));
      spent += double(done.size()) * double(all.size());
    }
    known = &results;
    for (size_t what = 0; what < all.size(); what++)
      for (const Replayed& one : results[what]) sums[what] += one.end;
    isOver = spent > MOST_REPLAYED || knownResults.size() > MOST_KNOWN;
  }
  for (size_t i = 0; i < ran.size(); i++) {
    pending.push_back(ran[i]);
    pendingEnds.emplace_back();
    for (size_t what = 0; what < all.size(); what++) pendingEnds.back().push_back(cyclesOf(what, i, ran[i], known));
  }
}

// A block that is not in the record takes as much less as the recorded ones together.
Replayed WhatIfs::cyclesOf(size_t what, size_t core, const RanBlock& ran, const std::vector<std::vector<Replayed>>* known) const {
  if (!known || core >= (*known)[what].size()) {
    double share = sums[0] > 0 ? sums[what] / sums[0] : 1;
    return {ran.end * share, ran.cube * share};
  }
  const Replayed &own = (*known)[what][core], &base = (*known)[0][core];
  if (what == 0) return own;
  return {base.end > 0 ? ran.end * own.end / base.end : ran.end, base.cube > 0 ? ran.cube * own.cube / base.cube : ran.cube};
}

// Two vector cores of one block: each waits while the cube core works for the other.
void WhatIfs::settle(bool arePairs, int64_t perWave) {
  for (size_t what = 0; what < all.size(); what++) {
    std::map<int64_t, double> groups, waiting;  // the slowest core without and with the wait for the other one
    for (size_t i = 0; i < pending.size(); i++) {
      double cycles = pendingEnds[i][what].end;
      size_t other = i ^ 1;
      bool isPair = arePairs && !pending[i].isCube && other < pending.size() && !pending[other].isCube;
      if (isPair && pendingEnds[i][what].cube > 0) cycles += pendingEnds[other][what].cube;
      times[what].addBlock(cycles, pending[i].index, pending[i].isCube);
      int64_t group = arePairs && !pending[i].isCube ? pending[i].index / 2 : pending[i].index;
      groups[group] = std::max(groups[group], pendingEnds[i][what].end);
      waiting[group] = std::max(waiting[group], cycles);
    }
    for (const auto& one : groups) times[what].addGroup(one.first, perWave, one.second);
    for (const auto& one : waiting) times[what].groupSum += one.second, times[what].groups++;
  }
  pending.clear();
  pendingEnds.clear();
}

}  // namespace simulator
