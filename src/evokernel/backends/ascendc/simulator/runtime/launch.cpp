// One launch of an operator. Blocks run in sequence; if they wait for each other, each has a separate stack.
#include "launch.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "core.h"
#include "memory.h"
#include "meeting.h"
#include "parts.h"
#include "what_if.h"
#include "writers.h"

namespace simulator {

Call& call() {
  static Call one;
  return one;
}

Entry& entry() {
  static Entry one{};
  return one;
}

namespace {

constexpr size_t STACK_BYTES = 1 << 20;
constexpr double SAMPLE_BYTES = 1 << 30;  // of global memory that sampled blocks may move
constexpr double DRY_SHARE = 1.0 / 3;  // of the time limit, for a dry execution of groups that run together
constexpr size_t LEAST_SAMPLE = 3;  // groups of such an execution that are executed at least
constexpr double DRY_BUDGETS = 2;   // the time limit of a dry execution of groups that run together, in limits of an ordinary launch
constexpr double PART_BUDGETS = 4;  // the time limit of chosen parts, in limits of an ordinary launch
double budgetSeconds = 20;
std::string report = "[]", mark;

struct Place {  // a core with a stack; launches share them, because clearing new ones takes longer than a small launch
  std::unique_ptr<Core> core = std::make_unique<Core>();
  std::unique_ptr<uint8_t[]> stack{new uint8_t[STACK_BYTES]};
};
Place& placeAt(size_t number) {
  static auto& all = *new std::vector<Place>();
  while (all.size() <= number) all.emplace_back();
  return all[number];
}

struct Block {  // execution of one block on one core
  Core* own = nullptr;
  ucontext_t context{};
  std::string error;
  bool done = false;
  std::function<bool()> ready;  // the condition it waits for, if any
};

std::vector<void*> given;       // the kernel's arguments
std::vector<Block>* blocks = nullptr;
Block* current = nullptr;
ucontext_t scheduler;

// The __gm__ variables of the kernel have their first values at the start of every launch, so that no launch knows of another. The simulator
// cannot see accesses to them.
void resetVariables() {
  static const std::vector<char> first(entry().variables, entry().variablesEnd);
  if (first.empty()) return;
  std::copy(first.begin(), first.end(), entry().variables);
  run.rawPointers = true;
}

void callEntry(void*) {
  core->stackTop = __builtin_frame_address(0);
 (core->isCube && entry().callOnCube ? entry().callOnCube : entry().call)(given.data());
}

// Treats an exception of the kernel as a rule violation.
void callKernel() {
  try {
    guarded(callEntry, nullptr);
  } catch (const Stop&) {
    throw;
  } catch (const OutOfTime&) {
    throw;
  } catch (const std::bad_alloc&) {
    endRun("E-MEMORY", "the kernel requests more memory than is available");
  } catch (const std::exception& error) {
    endRun("E-RAISED", "the kernel threw an exception: %s", error.what());
  } catch (...) {
    endRun("E-RAISED", "the kernel threw an exception that is not a std::exception");
  }
}

struct Running {  // marks a running block, which messages then name
  Running() { core->running = true; }
  ~Running() { core->running = false; }
};

void runBlock() {
  {
    Running now;
    readTilingAgain();
    callKernel();
  }
  rethrowViolation();
  core->finish();
}

void fiber() {
  Block* mine = current;
  try {
    runBlock();
  } catch (const Stop& stopped) {
    if (!mine->own->isLeftOut) mine->error = stopped.what();
  } catch (const OutOfTime&) {
    if (!mine->own->isLeftOut) mine->error = "E-PART-TIME\t\ta dry execution of blocks that wait for each other does not end within the time limit";
  }
  mine->done = true;
  swapcontext(&mine->context, &scheduler);
}

void name(Core& one, int64_t index, bool isCube) {
  one.reset(index);
  one.isCube = isCube;
  one.running = false;
  one.subBlock = run.isMix && !isCube ? index % 2 : 0;
  one.checksLess |= !isChosen(groupOf(one));
}

// Groups that run at the same time.
int64_t coresPerWave() { return int64_t(run.isMix || entry().onCube ? chip().aic_cores : chip().aiv_cores); }

struct Totals {
  Counts all;
  CoreTimes times;
  double cubeEnd = 0, slowest = 0;  // cycles of the cube cores; of the slowest core
  int64_t slowestBlock = 0;
  bool slowestIsCube = false;

  void add(const Core& one) { add(one.counts, one.blockIndex, one.isCube); }
  // Two vector cores of one block: each waits while the cube core works for the other.
  void addPair(Counts (&pair)[2], int64_t first) {
    double cube[2] = {pair[0].cube, pair[1].cube};
    for (int i = 0; i < 2; i++)
      if (cube[i] > 0) pair[i].end += cube[1 - i];
    for (int i = 0; i < 2; i++) add(pair[i], first + i, false);
  }
  void add(const Counts& c, int64_t blockIndex, bool isCube) {
    for (int pipe = 0; pipe < PIPES; pipe++) all.busy[pipe] += c.busy[pipe], all.cubeBusy[pipe] += isCube ? c.busy[pipe] : c.cubeBusy[pipe];
    if (isCube) cubeEnd += c.end;
    if (c.end > slowest) slowest = c.end, slowestBlock = blockIndex, slowestIsCube = isCube;
    all.vectorCalls += c.vectorCalls;
    all.copies += c.copies;
    all.bytesIn += c.bytesIn;
    all.bytesOut += c.bytesOut;
    all.scalarGm += c.scalarGm;
    all.scalarGmMiss += c.scalarGmMiss;
    all.scalarUb += c.scalarUb;
    all.macs += c.macs;
    all.ubPeak = std::max(all.ubPeak, c.ubPeak);
    all.library = std::max(all.library, c.library);
    times.addBlock(c.end, blockIndex, isCube);
  }
  // A group takes as long as its slowest core.
  void addGroup(int64_t group, int64_t perWave, const std::vector<const Counts*>& cores) {
    double cycles = 0;
    for (const Counts* one : cores) cycles = std::max(cycles, one->end);
    times.addGroup(group, perWave, cycles);
    noteGroup(group, cores);
  }
};

RanBlock describe(const Core& one) { return {one.counts.end, one.counts.cube, one.blockIndex, one.isCube}; }

// Runs the blocks of these groups concurrently, each until it ends or waits for others. The vector blocks come first.
void runTogether(int64_t vectorBlocks, int64_t cubeBlocks, const std::vector<int64_t>& groups, Totals& totals) {
  int64_t each = !vectorBlocks ? 0 : run.isMix ? 2 : 1, vectorsRun = each * int64_t(groups.size());
  std::vector<Block> all(size_t(vectorsRun + (cubeBlocks ? int64_t(groups.size()) : 0)));
  blocks = &all;
  for (size_t i = 0; i < all.size(); i++) {
    Block& block = all[i];
    bool isCube = int64_t(i) >= vectorsRun;
    int64_t at = isCube ? int64_t(i) - vectorsRun : int64_t(i);
    block.own = placeAt(i).core.get();
    block.own->number = uint32_t(i);
    name(*block.own, isCube ? groups[size_t(at)] : groups[size_t(at / each)] * each + at % each, isCube);
    getcontext(&block.context);
    block.context.uc_stack.ss_sp = placeAt(i).stack.get();
    block.context.uc_stack.ss_size = STACK_BYTES;
    block.context.uc_link = &scheduler;
    makecontext(&block.context, fiber, 0);
  }
  startMeetings(vectorBlocks, cubeBlocks);
  whatIfs().begin();
  for (bool going = true; going;) {
    going = false;
    for (Block& block : all) {
      if (block.done || (block.ready && !block.ready())) continue;
      going = true;
      block.ready = nullptr;
      current = &block;
      core = block.own;
      enterPhase();
      swapcontext(&scheduler, &block.context);
      if (!block.error.empty()) throw Stop(block.error);
    }
  }
  for (Block& block : all) {
    if (block.done || block.own->isLeftOut) continue;
    core = nullptr;  // no block runs, so the message names none
    endRun("E-SYNC-LOST", "some blocks wait for other blocks that never arrive: all blocks must synchronize equally often");
  }
  std::vector<RanBlock> ran;
  uint32_t ubPeak = 0;
  for (Block& block : all) ran.push_back(describe(*block.own)), ubPeak = std::max(ubPeak, block.own->counts.ubPeak);
  whatIfs().end(ran, ubPeak);
  whatIfs().settle(run.isMix, coresPerWave());
  for (size_t i = 0; i < all.size(); i++) {
    bool isPair = run.isMix && int64_t(i) + 1 < vectorsRun;
    if (!isPair) {
      totals.add(*all[i].own);
      continue;
    }
    Counts pair[2] = {all[i].own->counts, all[i + 1].own->counts};
    totals.addPair(pair, all[i].own->blockIndex);
    i++;
  }
  for (size_t g = 0; g < groups.size(); g++) {
    std::vector<const Counts*> cores;
    if (cubeBlocks) cores.push_back(&all[size_t(vectorsRun) + g].own->counts);
    for (int64_t sub = 0; sub < each; sub++) cores.push_back(&all[g * size_t(each) + size_t(sub)].own->counts);
    totals.addGroup(groups[g], coresPerWave(), cores);
  }
}

struct Over {  // at the end of a launch, no core is running
  ~Over() {
    callParts().guesses += run.guesses;
    callParts().blocksDepend |= run.blocksDepend;
    run.isDry = false;
    isRecording = false;
    core = nullptr;
    current = nullptr;
    blocks = nullptr;
  }
};

Core* onlyCore() {
  static Core* one = new Core();
  return one;
}

// Runs a block until its end or, in a dry execution, until the time limit: its cycles are then proportional to the share of the outputs that it wrote.
void runBlockInTime(uint64_t expectedBytes, bool isChosen) {
  whatIfs().begin();
  try {
    runBlock();
  } catch (const OutOfTime&) {
    callParts().fellShort = true;
    if (isChosen || !run.recorded) endRun("E-PART-TIME", "a dry execution of one block does not end within the time limit");
    core->finish();
    core->counts.end *= std::max(1.0, double(expectedBytes) / double(run.recorded));
  }
  whatIfs().end({describe(*core)}, core->counts.ubPeak);
}

// Runs these groups in sequence on one core. Only a part that was chosen must run completely.
void runGroups(const std::vector<int64_t>& groups, uint64_t bytesPerGroup, Totals& totals) {
  core = onlyCore();
  int64_t together = run.isMix ? 2 : 1;
  bool isChosen = !choice().groups.empty() || choice().execution == Execution::PARTS;
  for (int64_t group : groups) {
    Counts pair[2];
    forgetLines();
    for (int64_t sub = 0; sub < together; sub++) {
      name(*core, group * together + sub, false);
      if (sub == 0) run.recorded = 0;
      runBlockInTime(bytesPerGroup, isChosen);
      pair[sub] = core->counts;
    }
    if (together == 2) totals.addPair(pair, group * 2);
    else totals.add(pair[0], group, false);
    totals.addGroup(group, coresPerWave(), {&pair[0], &pair[1]});
    whatIfs().settle(together == 2, coresPerWave());
    bool isTooMuch = choice().execution == Execution::SAMPLE && double(totals.all.bytesIn + totals.all.bytesOut) > SAMPLE_BYTES;
    if ((!isLate() && !isTooMuch) || group == groups.back()) continue;
    if (isChosen) endRun("E-PART-TIME", "the chosen blocks of the launch do not end within the time limit");
    callParts().fellShort = true;
    break;
  }
}

// Runs the blocks in sequence on one core: all of them, or an evenly spaced sample within the time limit.
void runInTurn(int64_t count, bool isCube, Totals& totals) {
  Core* one = onlyCore();
  core = one;
  double began = cpuSeconds();
  int64_t together = run.isMix && !isCube ? 2 : 1, step = together;
  for (int64_t index = 0; index < count; index += step) {
    Counts pair[2];
    for (int64_t sub = 0; sub < together; sub++) {
      name(*one, index + sub, isCube);
      whatIfs().begin();
      runBlock();
      whatIfs().end({describe(*one)}, one->counts.ubPeak);
      pair[sub] = one->counts;
    }
    if (together == 2) totals.addPair(pair, index);
    else totals.add(pair[0], index, isCube);
    whatIfs().settle(together == 2, coresPerWave());
    double spent = cpuSeconds() - began;
    double each = spent / double(totals.times.ran);
    if (each * double(count) > budgetSeconds) {
      int64_t affordable = std::max<int64_t>(2, int64_t(budgetSeconds / each));
      int64_t wanted = (count - 1 + affordable - 1) / affordable;
      step = std::max<int64_t>(step, (wanted + together - 1) / together * together);
      if (spent > budgetSeconds && totals.times.ran >= 2) break;
    }
  }
}

// The state of a launch before its first block.
void prepareRun(const Launch& wanted, int64_t vectorBlocks, int64_t cubeBlocks) {
  run.isDry = choice().isDry();
  run.guesses = 0;
  run.blocksDepend = false;
  run.rawPointers = false;
  for (Region& region : run.regions) region.past = false;
  bool isChosen = !choice().groups.empty() || choice().execution == Execution::PARTS;
  bool isDryTogether = run.isDry && (entry().meets || cubeBlocks);
  setDeadline(budgetSeconds * (isChosen ? PART_BUDGETS : isDryTogether ? DRY_BUDGETS : 1));
  resetVariables();
  double footprint = 0;
  for (const Buffer& buffer : wanted.arguments) footprint += double(buffer.bytes);
  double cores = vectorBlocks ? std::min(double(vectorBlocks), chip().aiv_cores) : std::min(double(cubeBlocks), chip().aic_cores);
  shareMemory(footprint, cores, entry().meets || cubeBlocks);
  double chipCores = run.isMix || !vectorBlocks ? chip().aic_cores : chip().aiv_cores;
  whatIfs().start(double(vectorBlocks + cubeBlocks), std::min(double(wanted.blockDim), chipCores), chipCores);
}

// The CPU seconds that one of these groups takes; 0 if groups depend on others. Afterwards the launch is as before.
double secondsPerGroup(const Launch& wanted, int64_t vectorBlocks, int64_t cubeBlocks, const std::vector<int64_t>& groups) {
  CallParts before = callParts();
  Violations violations = takeViolations();
  bool areAlone = true;
  double began = cpuSeconds();
  try {
    Totals ignored;
    runTogether(vectorBlocks, cubeBlocks, groups, ignored);
  } catch (const Stop&) {
    areAlone = false;  // an error of the kernel will occur again
  }
  areAlone = areAlone && !run.blocksDepend;
  double seconds = cpuSeconds() - began;
  callParts() = before;
  restoreViolations(std::move(violations));
  forgetGroups();
  prepareRun(wanted, vectorBlocks, cubeBlocks);
  return areAlone ? seconds / double(groups.size()) : 0;
}

// The groups that a dry execution runs: all of them, or the first, the last and some others if they are independent and all would take too long.
// Those that run share L2 with as many others as in a complete launch.
std::vector<int64_t> dryGroups(const Launch& wanted, int64_t vectorBlocks, int64_t cubeBlocks, std::vector<int64_t> all) {
  if (choice().execution != Execution::DRY || all.size() <= LEAST_SAMPLE) return all;
  double each = secondsPerGroup(wanted, vectorBlocks, cubeBlocks, {all.front(), all.back()});
  size_t count = std::max(LEAST_SAMPLE, size_t(each > 0 ? DRY_SHARE * budgetSeconds / each : 1e9));
  if (count >= all.size()) return all;
  std::vector<int64_t> order = groupOrder(int64_t(all.size()), coresPerWave());
  order.resize(count);
  run.reach = uint32_t(double(run.reach) * double(count) / double(all.size()));
  return order;
}

void runAll(const Launch& wanted, int64_t vectorBlocks, int64_t cubeBlocks, Totals& totals) {
  if (entry().meets || cubeBlocks) {
    double cores = entry().isMix || !vectorBlocks ? chip().aic_cores : chip().aiv_cores;
    if (double(wanted.blockDim) > cores)
      endRun("E-SYNC-CORES", "blocks that wait for each other must all have a core at the same time, but there are %u blocks and %d cores", wanted.blockDim, int(cores));
    bool isSample = choice().execution == Execution::SAMPLE;
    double tensorBytes = 0;
    for (const Buffer& buffer : wanted.arguments) tensorBytes += double(buffer.bytes);
    if (isSample && tensorBytes > SAMPLE_BYTES)
      endRun("E-PART-SIZE", "blocks wait for each other, and what they do depends on the data, so neither some of them nor all of them can be executed at this size");
    std::vector<int64_t> groups(size_t(wanted.blockDim));
    std::iota(groups.begin(), groups.end(), 0);
    bool isAll = choice().groups.empty() || isSample || endsAtMeeting();
    if (isAll) groups = dryGroups(wanted, vectorBlocks, cubeBlocks, groups);
    runTogether(vectorBlocks, cubeBlocks, isAll ? groups : choice().groups, totals);
    callParts().fellShort |= int64_t(groups.size()) < int64_t(wanted.blockDim);
  } else if (!choice().isWhole()) {
    uint64_t outputBytes = 0;
    for (const Region& region : run.regions) outputBytes += region.written ? region.written->bytes() : 0;
    runGroups(groupOrder(wanted.blockDim, coresPerWave()), outputBytes / wanted.blockDim, totals);
  } else {
    runInTurn(vectorBlocks, false, totals);
  }
}

void countParts(const Totals& totals) {
  callParts().blocksRun += totals.times.ran;
  callParts().macs += double(totals.all.macs);
  callParts().bytesMoved += double(totals.all.bytesIn) + double(totals.all.bytesOut);
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 32 ? ' ' : c;
  }
  return out + "\"";
}

std::string pipeCycles(const char* key, const double (&cycles)[PIPES]) {
  std::string out = quoted(key) + ":{";
  for (int pipe = 0; pipe < PIPES; pipe++) {
    char text[64];
    snprintf(text, sizeof text, "%s\"%s\":%.17g", pipe ? "," : "", pipeName(pipe), cycles[pipe]);
    out += text;
  }
  return out + "},";
}

std::string number(const char* key, double value) {
  char text[96];
  snprintf(text, sizeof text, "\"%s\":%.17g,", key, value);
  return text;
}

// A kernel with vector and cube cores starts later, the more blocks it has.
double cubeStart(const Launch& wanted) { return entry().isMix ? chip().cube_start * std::min(double(wanted.blockDim), chip().aic_cores) : 0; }

// With more cores each has less to do, except for the start of a block and of the library; a kernel with cube cores starts later.
double cyclesOnMoreCores(const Launch& wanted, const Totals& totals, double then, double chipCores, double& best) {
  double used = std::min(double(wanted.blockDim), chipCores), fixed = totals.all.library, least = then;
  best = used;
  for (double cores = used + 1; cores <= chipCores; cores++) {
    double begin = (1 - used / cores) * (2 * chip().copy(0) + chip().scalar_gm_miss), later = entry().isMix ? (cores - used) * chip().cube_start : 0;
    double cycles = (then - fixed) * used / cores + fixed + begin + later;
    if (cycles < least) least = cycles, best = cores;
  }
  return least;
}

// The cycles that the launch would save in every what-if; those of the calls in the kernel with their addresses.
template <class F> std::string savedCycles(const Launch& wanted, const Totals& totals, double cycles, double chipCores, F cyclesOf) {
  std::string causes, sites;
  const WhatIfs& what = whatIfs();
  double bestCores = wanted.blockDim;
  for (size_t i = 0; i < what.all.size(); i++) {
    const WhatIf& one = what.all[i];
    double then = one.evens ? what.times[i].even(wanted.blockDim, chipCores) : cyclesOf(what.times[i]);
    if (one.spreads) then = cyclesOnMoreCores(wanted, totals, then, chipCores, bestCores);
    double saved = i ? std::min(cycles, std::max(0.0, cycles - then)) : std::fabs(cycles - then);
    if (!one.site) causes += number(one.name.c_str(), saved);
    else if (saved > 0) sites += (sites.empty() ? "[" : ",[") + quoted(siteAddresses(one.site)) + "," + quoted(one.name) + "," + std::to_string(saved) + "]";
  }
  if (!causes.empty()) causes.pop_back();
  return number("best_cores", bestCores) + "\"saved\":{" + causes + "},\"sites\":[" + sites + "],";
}

void writeReport(const Launch& wanted, const Totals& totals, int64_t blocksInAll, double cycles, const std::string& saved) {
  const Counts& c = totals.all;
  std::string out = "{\"op\":" + quoted(wanted.op) + ",";
  out += number("block_dim", wanted.blockDim) + number("blocks", double(blocksInAll)) + number("blocks_run", double(totals.times.ran));
  out += number("blocks_dry", choice().isDry() ? double(totals.times.ran) : 0) + number("guesses", double(run.guesses));
  out += std::string("\"is_part\":") + (choice().groups.empty() && choice().execution != Execution::PARTS ? "false," : "true,");
  out += std::string("\"matches_dry\":") + (matchesDry() ? "true," : "false,");
  out += number("tiling_key", double(wanted.tilingKey)) + number("workspace", double(wanted.workspaceBytes)) + number("cycles", cycles);
  out += number("us", chip().launch_us + cycles / (chip().ghz * 1000)) + number("ub_peak", c.ubPeak);
  out += number("vec_instr", double(c.vectorCalls)) + number("mte_instr", double(c.copies)) + number("mte2_bytes", double(c.bytesIn));
  out += number("mte3_bytes", double(c.bytesOut)) + number("scalar_gm", double(c.scalarGm)) + number("scalar_gm_miss", double(c.scalarGmMiss));
  out += number("scalar_ub", double(c.scalarUb)) + number("macs", double(c.macs)) + number("end", totals.times.sum);
  out += number("cube_start", cubeStart(wanted)) + number("library_start", c.library);
  out += number("cube_end", totals.cubeEnd) + number("slowest_cycles", totals.slowest) + number("slowest_block", double(totals.slowestBlock));
  out += std::string("\"slowest_is_cube\":") + (totals.slowestIsCube ? "true," : "false,");
  out += saved + pipeCycles("busy", c.busy) + pipeCycles("cube_busy", c.cubeBusy);
  out += std::string("\"raw_pointers\":") + (run.rawPointers ? "true" : "false") + ",\"bytes\":[";
  for (size_t i = 0; i < call().bytes.size(); i++) out += (i ? "," : "") + std::to_string(call().bytes[i]);
  out += "],\"call\":" + std::to_string(call().number) + ",\"notes\":[";
  for (size_t i = 0; i < notes().size(); i++) {
    const Note& note = notes()[i];
    out += (i ? ",[" : "[") + quoted(note.code) + "," + quoted(note.addresses) + "," + quoted(note.text) + "," + std::to_string(note.count) + "]";
  }
  report = out + "]}";
  if (choice().isDry() && choice().execution != Execution::DRY) return;  // it repeats a complete dry execution
  std::string line = "simulator-report " + mark + " " + report + "\n";
  if (write(2, line.data(), line.size()) < 0) report += " ";
}

}  // namespace

void enterPhase() {
  run.isDry = choice().isDry() || isLeftOut(groupOf(*core));
  if (run.isDry && !choice().isDry()) core->leaveOut();
}

void mustRunTogether() {
  if (!current || !blocks) endRun("E-SYNC-ALONE", "the kernel waits for other cores, but the simulator runs the blocks of this launch in sequence");
}

void pauseUntil(std::function<bool()> ready) {
  mustRunTogether();
  if (core->isUnsettled) core->settle();
  Block* mine = current;
  mine->ready = std::move(ready);
  swapcontext(&mine->context, &scheduler);
}

void launch(const Launch& wanted) {
  bool isMix = entry().isMix;
  int64_t vectorBlocks = entry().call ? int64_t(wanted.blockDim) * (isMix ? 2 : 1) : 0, cubeBlocks = entry().onCube ? int64_t(wanted.blockDim) : 0;
  run.isDry = choice().isDry();
  callParts().launches++;
  callParts().groups = wanted.blockDim;
  Arguments arguments(wanted);
  watchWriters();
  run.blockCount = wanted.blockDim;
  run.tilingKey = wanted.tilingKey;
  run.isMix = isMix;
  prepareRun(wanted, vectorBlocks, cubeBlocks);
  given = arguments.pointers;
  if (int(given.size()) != entry().parameters)
    endRun("E-KERNEL-ARGS", "the kernel has %d parameters, but needs %zu: inputs, outputs, workspace, tiling", entry().parameters, given.size());
  double chipCores = run.isMix || !vectorBlocks ? chip().aic_cores : chip().aiv_cores;
  Totals totals;
  {
    Over over;
    runAll(wanted, vectorBlocks, cubeBlocks, totals);
  }
  bool isExtrapolated = !choice().isWhole() && totals.times.ran < vectorBlocks + cubeBlocks;
  countParts(totals);
  auto cyclesOf = [&](const CoreTimes& times) {
    return isExtrapolated ? times.extrapolated(wanted.blockDim, coresPerWave()) : times.cycles(vectorBlocks, cubeBlocks);
  };
  double cycles = cyclesOf(totals.times);
  std::string saved = savedCycles(wanted, totals, cycles, chipCores, cyclesOf);
  writeReport(wanted, totals, vectorBlocks + cubeBlocks, cycles + cubeStart(wanted), saved);
}

}  // namespace simulator

void simulator_budget(double seconds) { simulator::budgetSeconds = seconds; }
void simulator_mark(const char* word) { simulator::mark = word; }
const char* simulator_report() { return simulator::report.c_str(); }
