// Launches at sizes that cannot be executed completely. A dry execution runs the control flow of a kernel with all its checks and costs, but touches no data: it
// yields the latency and the ranges that every block writes. The blocks that write chosen ranges can then be executed really, alone.
// The unit is a group: one block, or a cube core with its vector cores.
#pragma once
#include <cstdint>
#include <set>
#include <vector>

#include "written.h"

namespace simulator {

class Core;

enum class Execution : int {
  WHOLE,      // every block, within the time limit
  DRY,        // every group, dry
  DRY_PARTS,  // some groups, dry
  PARTS,      // some groups
  SAMPLE,     // the first, the last and some random groups of every wave
  TOUCHING,   // every group, dry, to find those that write to the ranges of the call before
};

struct Choice {
  Execution execution = Execution::WHOLE;
  std::vector<int64_t> groups;  // empty: all of them
  int64_t perWave = 4;          // groups of a wave in a sample
  bool isDry() const { return execution == Execution::DRY || execution == Execution::DRY_PARTS || execution == Execution::TOUCHING; }
  bool isWhole() const { return execution == Execution::WHOLE; }
};
Choice& choice();

// What the last call did, over all its launches.
struct CallParts {
  int64_t launches = 0, groups = 0, blocksRun = 0;
  bool blocksDepend = false, fellShort = false;  // fellShort: the time limit ended a launch early
  bool groupsAdd = false;                        // several groups add to the same elements
  uint64_t meetings = 0;                         // of all cores
  bool dependsOtherwise = false;                 // since the last meeting of all cores, blocks waited for each other in other ways
  bool isOutputWritten = false, isWrittenEarly = false;  // an output was written; also before a meeting
  std::set<int64_t> touching;                    // the groups that write to the ranges of the call before
  uint64_t guesses = 0;
  double bytesMoved = 0, macs = 0;
};
CallParts& callParts();
void startCall();

// Groups that depend on each other only until their last meeting, and write outputs only after it, can run alone from there on: all groups run until the
// meeting, then only the chosen ones.
bool isChosen(int64_t group);
// True for a group that was not chosen once it is past the meeting. Its results are not needed, so its violations do not count: it may get zeros for data.
bool isLeftOut(int64_t group);
// Whether such a choice is being executed.
bool endsAtMeeting();

// A write of the running core.
void noteWrite(Written& record, uint64_t start, uint64_t bytes, bool adds);

// A group that ran: what its cores did.
struct Counts;
void noteGroup(int64_t group, const std::vector<const Counts*>& cores);
// All cores have met: what each did until then. Blocks that were not chosen really run until their last meeting, so that they pay for it.
void noteMeeting(const std::vector<Core*>& cores);
// The writes of groups so far do not count.
void forgetGroups();
// Whether all that this launch executed really did as much as in the last dry execution of the same launch.
bool matchesDry();

// The record of the tensor at this address, which exists for all launches of a call; nullptr in a whole execution.
Written* writtenAt(const void* data, uint64_t bytes);
// The ranges that the last call wrote.
std::vector<ByteRange> writtenRanges(const void* data, uint64_t bytes);
// The record of memory that is no tensor of the caller: nothing is recorded.
Written* ignored();
// The memory no longer belongs to a tensor.
void forgetWritten(const void* data);
// Copies what the launches wrote to a tensor of the binding into the tensor of the caller.
void copyWritten(void* to, const void* from, uint64_t bytes);

// The initial zeros of an output of the operator, or of a new tensor: really only where a part writes.
void clearOutput(void* data, uint64_t bytes);
void noteZeros(const void* data);

// The groups that a launch runs, in order: within a time limit the first ones represent the rest.
std::vector<int64_t> groupOrder(int64_t groups, int64_t perWave);

// The CPU time of this process, so that the same blocks run on a busy machine.
double cpuSeconds();

// The time limit of a launch. A dry execution checks it where a kernel may loop over elements, and ends the block.
struct OutOfTime {};
void setDeadline(double seconds);
bool isLate();
void checkDeadline();

}  // namespace simulator

extern "C" {
// The execution of the following calls. `count` is the number of groups, or the groups per wave of a sample.
void simulator_choose(int execution, const int64_t* groups, int64_t count);
// The following calls are whole again. The records of the last call stay until then.
void simulator_end_choice();
// Of the last call: the number of parts that can run alone, the blocks that ran, the numbers that a dry execution had to guess, and whether it ended early.
int64_t simulator_part_count();
int64_t simulator_blocks_run();
int64_t simulator_guesses();
int simulator_fell_short();
// Whether several groups add to the same elements; which groups a call that looks for them found.
int simulator_groups_add();
int64_t simulator_touching(int64_t* into, int64_t capacity);
double simulator_bytes_moved();
// Whether the groups of the last call, a dry one with at least `macs` multiplications, can run alone after their last meeting; the following calls then do so.
int simulator_splits_at_meeting(double macs);
// Whether the last call met as often as the dry one and did not wait otherwise afterwards. It may not if that depends on data.
int simulator_holds_split();
void simulator_forget_split();
// The records become those of these groups in the last complete dry call, and its moved bytes theirs. 0 if it did not execute all of them completely.
int simulator_locate(const int64_t* groups, int64_t count);
// Whether any tensor, or this one, consists of zeros before the first launch of the call.
int simulator_has_zeros();
int simulator_starts_as_zeros(const void* data);
// Copies start and stop of each range of bytes that the last call wrote to the tensor; returns their number.
int64_t simulator_ranges(const void* data, int64_t bytes, int64_t* into, int64_t capacity);
}
