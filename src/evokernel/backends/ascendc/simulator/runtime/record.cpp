// The record of a schedule. The place of a step in the kernel is found by walking the frame pointers, which takes a few nanoseconds.
#include "record.h"

#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <unordered_map>

#include "core.h"
#include "entry.h"
#include "matmul_cost.h"

namespace simulator {

bool isRecording = false, isRecordCut = false;

namespace {

constexpr size_t MOST_STEPS = 300000, MOST_CALLS = 300000;  // of one record, and of all records of a launch; several calls may be one step
constexpr int FRAMES = 8, PASSED = 32;

std::vector<Step> log;
uint32_t slots = 0;
uintptr_t libraryStart = 0, libraryEnd = 0;

struct Stack {
  uint32_t depth = 0;
  uintptr_t at[FRAMES] = {};
};
std::unordered_map<uint64_t, uint32_t> sites;
std::vector<std::string> siteTexts(1);
size_t calls = 0;

struct Recent {
  Stack stack;
  uint32_t site = 0;
};
constexpr size_t RECENT = 64;
Recent recent[RECENT];

int findLibrary(dl_phdr_info* info, size_t, void* wanted) {
  uintptr_t start = info->dlpi_addr, end = start;
  for (int i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_LOAD) end = std::max<uintptr_t>(end, start + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
  auto at = reinterpret_cast<uintptr_t>(wanted);
  if (at < start || at >= end) return 0;
  libraryStart = start;
  libraryEnd = end;
  return 1;
}

// The return addresses in the operator's library. A frame that is not on the stack of the block ends the walk.
Stack callers(void** frame) {
  Stack found;
  for (int i = 0; i < PASSED && found.depth < FRAMES; i++) {
    auto back = reinterpret_cast<uintptr_t>(frame[1]);
    if (back >= libraryStart && back < libraryEnd) found.at[found.depth++] = back - 1 - libraryStart;
    else if (found.depth) break;
    auto next = static_cast<void**>(frame[0]);
    if (next <= frame || static_cast<void*>(next) >= core->stackTop || reinterpret_cast<uintptr_t>(next) % sizeof(void*)) break;
    frame = next;
  }
  return found;
}

uint32_t findSite(const Stack& stack) {
  uint64_t key = 1469598103934665603ull;
  for (uint32_t i = 0; i < stack.depth; i++) key = (key ^ stack.at[i]) * 1099511628211ull;
  auto known = sites.find(key);
  if (known != sites.end()) return known->second;
  std::string text;
  char offset[32];
  for (uint32_t i = 0; i < stack.depth; i++) {
    snprintf(offset, sizeof offset, "%s%zx", i ? "," : "", size_t(stack.at[i]));
    text += offset;
  }
  siteTexts.push_back(text);
  return sites[key] = uint32_t(siteTexts.size() - 1);
}

uint32_t siteOf(void** frame) {
  Stack stack = callers(frame);
  Recent& last = recent[(stack.at[0] ^ stack.at[1] >> 3) % RECENT];
  if (last.site && last.stack.depth == stack.depth && !memcmp(last.stack.at, stack.at, stack.depth * sizeof stack.at[0])) return last.site;
  last = {stack, findSite(stack)};
  return last.site;
}

void add(Step step, void* frame) {
  if (log.size() >= MOST_STEPS || ++calls > MOST_CALLS) {
    isRecording = false;
    isRecordCut = true;
    return;
  }
  step.site = siteOf(static_cast<void**>(frame));
  Step* last = log.empty() ? nullptr : &log.back();
  bool isSame = last && last->kind == StepKind::SCALAR && step.kind == StepKind::SCALAR && last->site == step.site && last->core == step.core;
  if (isSame && last->flags == step.flags && last->other == step.other) last->cycles += step.cycles;
  else log.push_back(step);
}

Step ownStep(StepKind kind, int pipe, int other = 0) {
  Step step{kind, uint8_t(pipe), uint8_t(other)};
  step.core = core->number;
  return step;
}

}  // namespace

void startCalls() { calls = 0; }
bool hasCallsLeft() { return calls < MOST_CALLS; }

void startRecord() {
  if (!libraryStart) {
    Entry& known = entry();
    dl_iterate_phdr(findLibrary, reinterpret_cast<void*>(known.call ? known.call : known.callOnCube));
  }
  log.clear();
  slots = 0;
  isRecordCut = false;
  isRecording = true;
}

std::vector<Step>& steps() { return log; }

void record(Step step) {
  step.core = core->number;
  add(step, __builtin_frame_address(0));
}

void recordFor(const Core& other, Step step) {
  step.core = other.number;
  add(step, __builtin_frame_address(0));
}

void recordIssue(int pipe, double cycles, double fixed, uint8_t flags) {
  Step step = ownStep(StepKind::ISSUE, pipe);
  step.flags = flags;
  step.cycles = cycles;
  step.fixed = fixed;
  add(step, __builtin_frame_address(0));
}

void recordScalar(double cycles, uint8_t flags, int waitsFor) {
  Step step = ownStep(StepKind::SCALAR, S, waitsFor);
  step.flags = flags;
  step.cycles = cycles;
  add(step, __builtin_frame_address(0));
}

void recordOrder(int pipe, int other, double cycles) {
  Step step = ownStep(StepKind::ORDER, pipe, other);
  step.cycles = cycles;
  add(step, __builtin_frame_address(0));
}

void recordProduct(const ProductCost& cost, double alignedInto1, uint32_t& slot) {
  Step step = ownStep(StepKind::PRODUCT, M);
  step.slot = slotOf(slot);
  step.a = cost.mac;
  step.b = cost.into1;
  step.c = cost.into0;
  step.d = cost.leaving;
  step.fixed = alignedInto1;
  add(step, __builtin_frame_address(0));
}

void recordResult(uint32_t slot) {
  Step step = ownStep(StepKind::RESULT, S);
  step.slot = slot;
  add(step, __builtin_frame_address(0));
}

uint32_t slotOf(uint32_t& slot) {
  if (!slot) slot = ++slots;
  return slot;
}
uint32_t slotCount() { return slots; }

uint32_t stampMessage(int pipe) {
  if (!isRecording) return 0;
  Step step = ownStep(StepKind::STAMP, pipe);
  step.slot = ++slots;
  add(step, __builtin_frame_address(0));
  return step.slot;
}

const std::string& siteAddresses(uint32_t site) { return siteTexts[site < siteTexts.size() ? site : 0]; }
size_t siteCount() { return siteTexts.size(); }

}  // namespace simulator
