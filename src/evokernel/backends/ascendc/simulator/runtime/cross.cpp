// Flags between cores. Each core counts the received signals of each flag; a wait takes one of them, or lets other blocks run until
// one arrives.
#include "cross.h"

#include <deque>
#include <map>
#include <tuple>

#include "meeting.h"
#include "parts.h"
#include "writers.h"

namespace simulator {

namespace {

constexpr int FLAGS = 16, AT_ONCE = 15;

struct Signal {
  double time;    // when it was sent
  uint32_t slot;  // its number in the record
};
struct Mailbox {
  std::deque<Signal> signals[FLAGS];
  std::deque<Signal> sent[FLAGS];  // signals of this core that wait for other senders
};

// A pipe of the running core waits for a message.
void receive(int pipe, double sent, uint32_t slot, double cycles) {
  core->time[pipe] = std::max(core->time[pipe], sent) + cycles;
  if (!isRecording || !slot) return;
  Step step{StepKind::RECEIVE, uint8_t(pipe)};
  step.slot = slot;
  step.cycles = cycles;
  record(step);
}
std::map<int64_t, Mailbox> vectorCores, cubeCores;
int64_t vectors = 0, cubes = 0;

struct Mark {
  bool set = false;
  double time = 0;
  uint32_t slot = 0;
};
std::map<std::tuple<uintptr_t, int64_t, int64_t>, Mark> marks;

int64_t turn = 0;  // number of blocks whose turn is over
double turnTime = 0;
uint32_t turnSlot = 0;
std::map<const Core*, int64_t> rounds;  // number of turns that a core has waited for

int64_t perBlock() { return run.isMix ? 2 : 1; }

void deliver(Mailbox& to, int flag, Signal signal, const char* what) {
  to.signals[flag].push_back(signal);
  if (int(to.signals[flag].size()) > AT_ONCE)
    reportViolation("E-CROSS-COUNT", "%s: flag %d was set %zu times without a wait, but a core counts to at most %d", what, flag,
           to.signals[flag].size(), AT_ONCE);
}

// A signal that needs all of `senders` reaches all of `receivers` `delay` cycles after the last one has sent it.
void combine(const std::vector<Mailbox*>& senders, const std::vector<Mailbox*>& receivers, int flag, const char* what, double delay = 0) {
  Signal latest{0, 0};
  for (Mailbox* one : senders) {
    if (one->sent[flag].empty()) return;
    latest.time = std::max(latest.time, one->sent[flag].front().time);
  }
  for (Mailbox* one : senders) {
    Step step{StepKind::MERGE};
    step.slot = slotOf(latest.slot);
    step.region = one->sent[flag].front().slot;
    step.cycles = delay;
    if (isRecording && step.region) record(step);
    one->sent[flag].pop_front();
  }
  latest.time += delay;
  for (Mailbox* one : receivers) deliver(*one, flag, latest, what);
}

std::vector<Mailbox*> all(std::map<int64_t, Mailbox>& cores, int64_t first, int64_t count) {
  std::vector<Mailbox*> found;
  for (int64_t i = first; i < first + count; i++) found.push_back(&cores[i]);
  return found;
}

int checked(int flag, const char* what) {
  if (flag < 0 || flag >= FLAGS) endRun("E-CROSS-FLAG", "%s: flag %d is outside 0..%d", what, flag, FLAGS - 1);
  return flag;
}

Mailbox& mine() { return (core->isCube ? cubeCores : vectorCores)[core->blockIndex]; }

}  // namespace

void startFlags(int64_t vectorBlocks, int64_t cubeBlocks) {
  vectors = vectorBlocks;
  cubes = cubeBlocks;
  vectorCores.clear();
  cubeCores.clear();
  marks.clear();
  rounds.clear();
  turn = 0;
  turnTime = 0;
  turnSlot = 0;
}

void setCross(int mode, int pipe, int flag, const char* what) {
  mustRunTogether();
  checked(flag, what);
  core->issue(pipe, chip().handshake);
  mine().sent[flag].push_back({core->time[pipe], stampMessage(pipe)});
  int64_t block = core->isCube ? core->blockIndex : core->blockIndex / perBlock();
  std::vector<Mailbox*> pair = all(vectorCores, block * perBlock(), perBlock());
  if (mode == 0) {
    run.blocksDepend = callParts().dependsOtherwise = true;
    std::vector<Mailbox*> kind = core->isCube ? all(cubeCores, 0, cubes) : all(vectorCores, 0, vectors);
    combine(kind, kind, flag, what, chip().sync_all);  // as SyncAll, which consists of such flags
  } else if (mode == 1) {
    combine(pair, pair, flag, what);
  } else if (mode == 2) {
    if (core->isCube)
      combine({&mine()}, pair, flag, what);
    else
      combine(pair, all(cubeCores, block, 1), flag, what);
  } else {
    endRun("E-CROSS-MODE", "%s: mode %d does not exist; use 0 (all cores of a kind), 1 (the vector cores of a block) or 2 (cube and vector cores of a block)",
         what, mode);
  }
}

void waitCross(int pipe, int flag, const char* what) {
  mustRunTogether();
  std::deque<Signal>& signals = mine().signals[checked(flag, what)];
  if (signals.empty()) pauseUntil([&signals] { return !signals.empty(); });
  blocksMet();
  receive(pipe, signals.front().time, signals.front().slot, chip().handshake);
  signals.pop_front();
}

void setMark(uintptr_t place, int64_t block, int64_t event) {
  mustRunTogether();
  run.blocksDepend = callParts().dependsOtherwise = true;
  core->barrier();
  Mark& mark = marks[{place, block, event}];
  if (mark.set) pauseUntil([&mark] { return !mark.set; });
  blocksMet();
  mark = {true, core->time[S], stampMessage(S)};
  core->scalar(chip().scalar_gm_miss);
}

void waitMark(uintptr_t place, int64_t block, int64_t event) {
  mustRunTogether();
  run.blocksDepend = callParts().dependsOtherwise = true;
  Mark& mark = marks[{place, block, event}];
  if (!mark.set) pauseUntil([&mark] { return mark.set; });
  blocksMet();
  mark.set = false;
  core->barrier();
  receive(S, mark.time, mark.slot, chip().scalar_gm_miss);
  core->barrier();
}

void waitTurn() {
  mustRunTogether();
  run.blocksDepend = callParts().dependsOtherwise = true;
  int64_t mineAt = rounds[core]++ * vectors + core->blockIndex;
  if (turn < mineAt) pauseUntil([mineAt] { return turn >= mineAt; });
  blocksMet();
  core->barrier();
  receive(S, turnTime, turnSlot, chip().scalar_gm_miss);
  core->barrier();
}

void passTurn() {
  mustRunTogether();
  core->barrier();
  turnTime = core->time[S];
  turnSlot = stampMessage(S);
  turn++;
}

}  // namespace simulator
