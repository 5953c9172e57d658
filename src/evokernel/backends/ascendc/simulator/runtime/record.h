// Records what each core does in time, so that its schedule can be replayed with one thing made free: see what_if.h.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace simulator {

class Core;
struct ProductCost;

enum class StepKind : uint8_t {
  ISSUE,         // an instruction of a pipe: cycles, and the fixed part of them
  MOVE,          // a copy between global and local memory
  SCALAR,        // cycles of the scalar pipe, which first waits for `other` if that is a pipe
  RAISE, WAIT,   // a flag between two pipes; `other` of a wait: 1 if it waits for a buffer to be free again
  ORDER,         // `pipe` waits for the time of `other`
  BARRIER,       // of one pipe; `other`: PIPES for all of them
  LIBRARY,       // the start of Matmul
  PRODUCT,       // a request to Matmul
  RESULT,        // the scalar pipe waits for a product
  STAMP, MERGE,  // the time of a pipe as a message to other cores; the later of two messages
  RECEIVE,       // a pipe waits for a message
  ARRIVE, LEAVE  // SyncAll
};
// GetValue or SetValue; an instruction that combines lanes; an access to global memory; the barrier of SyncAll
enum StepFlags : uint8_t { ACCESS = 1, REDUCTION = 2, GLOBAL = 4, MEETING = 8 };

struct Step {
  StepKind kind;
  uint8_t pipe = 0, other = 0, flags = 0;
  uint32_t site = 0, slot = 0, region = 0;  // the call in the kernel; the flag, product or message; the argument that a copy accesses
  uint32_t core = 0;
  double cycles = 0, fixed = 0;
  double a = 0, b = 0, c = 0, d = 0;
};

extern bool isRecording;

// Before a launch, of whose calls not all may be recorded.
void startCalls();
bool hasCallsLeft();
// Starts the record of a block, or of blocks that run together; a record that is too long ends early.
void startRecord();
std::vector<Step>& steps();
extern bool isRecordCut;

// Adds a step of the running core, called by the kernel.
void record(Step step) __attribute__((noinline, cold));
void recordFor(const Core& other, Step step);  // of another core
void recordIssue(int pipe, double cycles, double fixed, uint8_t flags) __attribute__((noinline, cold));
void recordScalar(double cycles, uint8_t flags, int waitsFor) __attribute__((noinline, cold));
void recordOrder(int pipe, int other, double cycles) __attribute__((noinline, cold));
void recordProduct(const ProductCost& cost, double alignedInto1, uint32_t& slot) __attribute__((noinline, cold));
void recordResult(uint32_t slot) __attribute__((noinline, cold));
// The number of a flag, product or message: a new one if it has none.
uint32_t slotOf(uint32_t& slot);
uint32_t slotCount();
uint32_t stampMessage(int pipe);  // a new message with the time of a pipe of the running core

// The call stack of a place in the kernel, as offsets in the operator's library, innermost first.
const std::string& siteAddresses(uint32_t site);
size_t siteCount();

}  // namespace simulator
