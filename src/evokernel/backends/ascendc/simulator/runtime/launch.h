// One launch of an operator: its arguments in global memory, its blocks one after the other, and what that cost.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "entry.h"

namespace twin {

struct Buffer {
  void* data;  // nullptr for an optional input that is absent
  uint64_t bytes;
  std::string name;
  bool writable;
  std::vector<int64_t> shape = {};
  std::vector<Buffer> parts = {};  // of a list of tensors, which has no data of its own
};

struct Launch {
  std::string op;
  std::vector<Buffer> arguments;
  uint64_t workspaceBytes = 0;
  std::vector<uint8_t> tiling;
  uint32_t blockDim = 1;
  uint64_t tilingKey = 0;
};

void launch(const Launch& wanted);

// What the judge asked for, in which a bind may launch several operators.
struct Call {
  uint64_t number = 0;
  std::vector<uint64_t> bytes;  // of its tensors
};
Call& call();

// Runs what may touch memory it should not; such an access ends it with a broken rule.
void guarded(void (*body)(void*), void* with);

}  // namespace twin

extern "C" {
// Before the process is closed in: signals are handled from now on.
void twin_open();
// At most so many seconds for a launch; beyond that only some of its blocks are run.
void twin_budget(double seconds);
const char* twin_report();
// What every line of a report begins with, so that nobody else can write one.
void twin_mark(const char* word);
}
