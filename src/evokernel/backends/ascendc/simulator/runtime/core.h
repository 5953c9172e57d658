// One core while it runs a block: its pipes with their clocks, its local memories with their access history, its flags and its cost counters.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "access_history.h"
#include "chip.h"
#include "diagnose.h"
#include "pending_copies.h"
#include "record.h"
#include "traffic.h"

namespace simulator {

inline const char* pipeName(int pipe) {
  static const char* names[] = {"S", "V", "MTE2", "MTE3", "MTE1", "M", "FIX"};
  return names[pipe];
}

// The local memories share one address space, one behind the other.
enum Space : int { UB, L1, L0A, L0B, L0C, BT, FB, SPACES };
inline const char* spaceName(int space) {
  static const char* names[] = {"UB", "L1", "L0A", "L0B", "L0C", "BT", "FB"};
  return names[space];
}
constexpr uint32_t SPACE_START[SPACES + 1] = {0, 256u << 10, 1280u << 10, 1344u << 10, 1408u << 10, 1664u << 10, 1668u << 10, 1672u << 10};
constexpr uint32_t LOCAL_BYTES = SPACE_START[SPACES], BLOCK = 32;
constexpr uint64_t SYSTEM_WORKSPACE = 16u << 20;  // bytes of the workspace that the library reserves

inline int spaceOf(uint32_t address) {
  int space = 0;
  while (space + 1 < SPACES && address >= SPACE_START[space + 1]) space++;
  return space;
}
// Outside its buffer, but in the same memory: the device accesses the neighbouring buffer without an error.
inline bool isInSameMemory(uint32_t buffer, int64_t at, uint64_t bytes) {
  int space = spaceOf(buffer);
  return at >= int64_t(SPACE_START[space]) && at + int64_t(bytes) <= int64_t(SPACE_START[space + 1]);
}
inline uint32_t inSpace(uint32_t address) { return address - SPACE_START[spaceOf(address)]; }

// The state of a pipe when it set a flag: its time, and its progress relative to the other pipes.
struct Event {
  double time = 0;
  uint32_t clock[PIPES] = {};
  uint32_t slot = 0;  // its number in the record
  bool set = false;
};

// A buffer of a queue. The pipe holds these, so that copies of a queue share them.
struct QueueBuffer {
  enum State : uint8_t { FREE, TAKEN, QUEUED, PASSED };
  State state = FREE;
  Event filled, freed;
  int8_t filledId = 0, freedId = 0;
};

// The new content of a block while an instruction reads the old one.
struct Stale {
  uint32_t block;
  uint8_t bytes[BLOCK];
};

struct Mask {  // the lanes of a vector instruction
  uint64_t low = ~0ull, high = ~0ull;
  bool on(int lane) const { return lane < 64 ? (low >> lane) & 1 : (high >> (lane - 64)) & 1; }
};
struct Registers {  // registers that one instruction sets and another reads
  float deqScale = 1;          // SetDeqScale
  int16_t deqOffset = 0;
  bool deqSigned = true;
  uint32_t deqTable = 0;       // the address of a table of 16 scales
  uint64_t sum = 0;            // bits of the accumulated sum of a reduction
  uint64_t extreme = 0, extremeIndex = 0;
  uint16_t merged[4] = {};     // number of records that MrgSort consumed from each queue
  uint64_t kept = 0;           // number of elements that GatherMask selected
  uint64_t pad = 0;            // bits of the fill value of DataCopyPad: SetPadValue
  bool hasPad = false;
  uint64_t blocks[8][8] = {};  // block addresses set by set_va_reg_sb
};
enum class Atomic : uint8_t { NONE, ADD, MAX, MIN };  // how a copy to global memory combines with the existing data

class Written;
struct Region {  // of global memory
  uintptr_t seen, low, high;  // the address that the kernel gets; the range of the data
  const char* name;
  bool writable;
  uint16_t* lineOwner;  // per 64 bytes: 1 + the block that wrote it through the scalar data cache
  uint32_t* lines = nullptr;  // per 128 bytes: time of the last transfer, if not all data fit into L2
  bool past = false;          // copies bypass L2
  uint32_t* writers = nullptr;  // the blocks that wrote it since the start of the launch: see writers.cpp
  Written* written = nullptr;   // the ranges that are written, where the launch records them: see written.h
  bool watched = false;         // a scalar read needs more than the data
};

struct Counts {
  double busy[PIPES] = {}, end = 0;
  double cubeBusy[PIPES] = {};  // the part of `busy` that the cube core does for a vector core, through Matmul
  double cube = 0;  // cycles of the cube core for this vector core
  double library = 0;  // cycles in which the library starts
  uint64_t vectorCalls = 0, copies = 0, bytesIn = 0, bytesOut = 0, scalarGm = 0, scalarGmMiss = 0, scalarUb = 0, macs = 0;
  uint32_t ubPeak = 0;
};

// Settings of the run; the same for all blocks.
struct Run {
  std::vector<Region> regions;
  int64_t blockCount = 1;
  uint64_t tilingKey = 0;
  double hbmRate = 1e9, l2Rate = 1e9;  // bytes per cycle of HBM and of L2 for one core while all cores move data
  bool fits = true;                    // all arguments fit into L2
  double cores = 1;                    // that run blocks at the same time
  uint32_t moved = 0, reach = 0;       // lines moved so far, and the number of them that L2 keeps for a block
  uint8_t* workspace = nullptr;
  uint64_t workspaceBytes = 0;         // requested by the host code
  bool rawPointers = false;
  bool isMix = false;
  bool isDry = false;                  // checks and charges instructions, but neither moves nor computes data: see parts.h
  bool blocksDepend = false;           // a block waited for, or signalled, blocks outside its own group
  uint64_t guesses = 0;                // values that a dry execution read without data behind them
  uint64_t recorded = 0;               // bytes that the current group wrote, where writes are recorded
};
extern Run run;

// Every instruction and library function calls this after its checks and its charges, and returns at once where it is true: a dry execution has no data.
// One that does not call it stays correct, because all data are zero then, but takes as long as in a real execution. A function that returns a number
// computed from data to the kernel calls guess() as well.
inline bool isDry() { return __builtin_expect(run.isDry, 0); }

// A dry execution returns a number that depends on data: whatever the kernel does with it may differ in a real execution.
void guess() __attribute__((cold, noinline));

class Core {
 public:
  Core();
  ~Core();
  Core(const Core&) = delete;
  int64_t blockIndex = 0, subBlock = 0;
  bool isCube = false, running = false;
  uint32_t number = 0;        // among the cores that run together
  void* stackTop = nullptr;   // the frames of the kernel are below it
  void reset(int64_t block);
  void finish();

  // ---- time and order
  double time[PIPES];
  double started[PIPES] = {};  // start of the last instruction
  double late[PIPES] = {};  // arrival time of the last copy's data; the pipe continues earlier
  uint32_t cold = 0;        // lines moved before the start of this block
  uint64_t copiesIn = 0;    // copies from global memory so far
  double finished(int pipe) const { return std::max(time[pipe], late[pipe]); }
  uint32_t clock[PIPES][PIPES], epoch[PIPES];
  Event events[PIPES][PIPES][8];
  Counts counts;

  // Issues an instruction, in the order of its pipe; `fixed` cycles do not depend on the size of the operands.
  void issue(int pipe, double cycles, double fixed = 0, uint8_t flags = 0);
  void move(int pipe, const Traffic& rows);  // a copy between global and local memory
  void move(int pipe, double bytes, bool aligned = true);
  void scalar(double cycles, uint8_t flags = 0, int waitedFor = PIPES) {
    time[S] += cycles;
    counts.busy[S] += cycles;
    if (__builtin_expect(isRecording, 0)) recordScalar(cycles, flags, waitedFor);
  }
  void access(double cycles, int waitedFor) { scalar(cycles, ACCESS, waitedFor); }  // GetValue or SetValue
  void startLibrary() {  // no pipe works
    time[S] += chip().matmul_start;
    counts.library += chip().matmul_start;
    if (__builtin_expect(isRecording, 0)) record({StepKind::LIBRARY});
  }
  void order(int pipe, int other, double cycles = 0) {  // a pipe waits for the last instruction of another one
    time[pipe] = std::max(time[pipe], time[other]) + cycles;
    if (__builtin_expect(isRecording, 0)) recordOrder(pipe, other, cycles);
  }
  void raise(Event& event, int from);
  void wait(const Event& event, int pipe, bool isReuse = false);  // isReuse: for a buffer that is free again
  void barrier();
  void barrier(int pipe);

  // ---- registers
  Mask mask;                 // set by SetVectorMask
  bool maskCounts = false;   // SetMaskCount: a mask is a number of elements
  uint64_t maskElements = 0;
  Mask compared;             // result of Compare without a destination
  Registers registers;
  Atomic atomic = Atomic::NONE;
  void* pipe = nullptr;      // the TPipe constructed last
  uint64_t repeatSize = 0;
  uint32_t writer = 0;       // its number among the writers of global memory
  uint64_t idsTaken[PIPES][PIPES] = {};  // event IDs in use by buffers of queues, by setting and waiting pipe

  // ---- local memory
  uint8_t* local;
  uint8_t* seen;         // the address that a kernel gets; it is inaccessible at first
  bool isOpen = false;   // the kernel used a raw pointer, so the data were mapped there
  bool open();
  uint8_t* before;     // level hardware: what each block held before its last write
  std::vector<Stale> stale;  // blocks that show this instead, until the next instruction
  void overwritePending(int pipe, uint32_t address, uint64_t bytes);
  void showStale(uint32_t block) __attribute__((cold, noinline));
  void keepBefore(uint32_t block);
  PendingCopies pendingCopies;
  bool isUnsettled = false;  // stale blocks, or copies to repeat; both until the next instruction
  void settle() __attribute__((cold, noinline));
  uint8_t* known;      // per byte: whether it was written
  bool tolerates = false, doubtful = false;  // doubt.h: uninitialized bytes are tracked instead of refused; some were read
  uint32_t knownLow = 0, knownHigh = 0;  // in a dry execution: all known bytes are between; scalar instructions wrote them
  AccessHistory history{LOCAL_BYTES / BLOCK};  // a dry execution records only the writers
  uint8_t filling = 0xA5;  // the contents of memory that nothing wrote
  bool isLeftOut = false;   // from now on it runs dry, because its results are not needed
  bool checksLess = false;  // at level FAST, in a dry execution and in blocks that were not chosen: neither the order of pipes nor uninitialized memory is checked
  void touchDry(int pipe, uint32_t first, uint32_t count, uint32_t address, uint64_t bytes);
  void scalarReads(uint32_t address, uint64_t bytes, const char* what) __attribute__((cold, noinline));
  uint32_t top[SPACES] = {}, buffers = 0, high[SPACES] = {};
  static constexpr uint32_t MOST_BUFFERS = 64;
  QueueBuffer queueBuffers[MOST_BUFFERS];
  void touch(int pipe, uint32_t address, uint64_t bytes, bool writes, const char* what);
  void leaveOut();  // runs dry from now on
  void reads(uint32_t address, uint64_t bytes, const char* what);    // requires that all bytes were written
  bool canRead(int pipe, uint32_t address, uint64_t bytes) const;    // whether reading these bytes violates no rule
  void noteRead(int pipe, uint32_t block) {
    if (!checksLess) history.addRead(pipe, epoch[pipe], block, 1);
  }
  int scalarTouch(uint32_t address, bool writes);  // returns the pipe that it waits for, or PIPES
  void used(uint32_t address, uint64_t bytes) {  // so that a reset clears only the used range
    int space = spaceOf(address);
    high[space] = std::max(high[space], uint32_t(address + bytes));
  }

  // ---- global memory through the scalar data cache
  void scalarGm(uintptr_t address);

 private:
  double hbmPort = 0, l2Port = 0;   // no copy ends before this core's share of the bandwidth allows its traffic
  uint64_t lines[512];
  void reportConflicts(int pipe, uint32_t block, bool writes, const char* what) __attribute__((cold, noinline));
  void race(int pipe, int other, uint32_t block, bool writes, bool wrote, const char* what) __attribute__((cold, noinline));
  void unknown(uint32_t address, uint64_t bytes, const uint8_t* at, const char* what) __attribute__((cold, noinline));
};

extern Core* core;   // the core that runs now

// One block, or a cube core with its vector cores.
inline int64_t groupOf(const Core& one) { return one.isCube ? one.blockIndex : one.blockIndex / (run.isMix ? 2 : 1); }

double spaceBytes(int space);

inline void Core::issue(int pipe, double cycles, double fixed, uint8_t flags) {
  if (__builtin_expect(isUnsettled, 0)) settle();
  if (pipe != S) time[S] += chip().issue;
  started[pipe] = std::max(time[pipe], time[S]);
  time[pipe] = started[pipe] + cycles;
  counts.busy[pipe] += cycles;
  clock[pipe][pipe] = ++epoch[pipe];
  if (__builtin_expect(isRecording, 0)) recordIssue(pipe, cycles, fixed, flags);
}

// Called before the write. A block that shows its old content and is overwritten keeps what is written.
inline void Core::keepBefore(uint32_t block) {
  for (size_t i = 0; i < stale.size(); i++)
    if (stale[i].block == block) {
      stale.erase(stale.begin() + long(i));
      return;
    }
  memcpy(before + block * BLOCK, local + block * BLOCK, BLOCK);
}

inline void Core::reads(uint32_t address, uint64_t bytes, const char* what) {
  if (__builtin_expect(checksLess, 0)) return;
  if (auto at = static_cast<const uint8_t*>(memchr(known + address, 0, bytes))) unknown(address, bytes, at, what);
}

inline bool Core::canRead(int pipe, uint32_t address, uint64_t bytes) const {
  if (checksLess) return true;
  uint32_t first = address / BLOCK, count = uint32_t((address + bytes - 1) / BLOCK) - first + 1;
  return !memchr(known + address, 0, bytes) && !history.hasConflict(pipe, clock[pipe], first, count, false);
}

// The compiler makes the scalar pipe wait for the last access to the bytes.
inline int Core::scalarTouch(uint32_t address, bool writes) {
  if (__builtin_expect(isUnsettled, 0)) settle();
  uint8_t& writer = history.writer[address / BLOCK];
  int waitsFor = writer != S ? writer : PIPES;
  if (waitsFor != PIPES) time[S] = std::max(time[S], finished(waitsFor));
  if (writes) {
    writer = S;
    history.written[address / BLOCK] = epoch[S];
    knownLow = std::min(knownLow, address);
    knownHigh = std::max(knownHigh, address + BLOCK);
    used(address, BLOCK);
  }
  return waitsFor;
}

inline void Core::scalarGm(uintptr_t address) {
  uint64_t line = address >> 6;
  uint64_t& kept = lines[line % uint64_t(chip().dcache_lines)];
  counts.scalarGm++;
  if (kept == line) {
    scalar(chip().scalar_gm_hit, ACCESS | GLOBAL);
  } else {
    kept = line;
    counts.scalarGmMiss++;
    scalar(chip().scalar_gm_miss, ACCESS | GLOBAL);
  }
}

// The host code must request the library's part of the workspace.
inline bool needsSystemWorkspace(const char* what) {
  if (__builtin_expect(run.workspaceBytes >= SYSTEM_WORKSPACE, 1)) return true;
  reportViolation("E-WS-SYSTEM", "%s: the host code requests %llu bytes of workspace, but the library alone needs %llu", what,
         (unsigned long long)run.workspaceBytes, (unsigned long long)SYSTEM_WORKSPACE);
  return false;
}

inline const Region* regionAt(uintptr_t seen) {
  for (const Region& region : run.regions)
    if (seen >= region.seen && seen <= region.seen + (region.high - region.low)) return &region;
  return nullptr;
}

}  // namespace simulator
