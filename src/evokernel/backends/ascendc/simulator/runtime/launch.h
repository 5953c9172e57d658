// One launch of an operator: its arguments in global memory, the execution of its blocks, and its cost.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "entry.h"

namespace simulator {

struct Buffer {
  void* data;  // nullptr for an optional input that is absent
  uint64_t bytes;
  std::string name;
  bool writable;
  std::vector<int64_t> shape = {};
  std::vector<Buffer> parts = {};  // the tensors of a list, which itself has no data
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

// The call from the loader; a binding may launch several operators in one call.
struct Call {
  uint64_t number = 0;
  std::vector<uint64_t> bytes;  // sizes of its tensors
  std::vector<const void*> inputs;  // the data of its tensors that must keep their values
};
Call& call();

// Runs code that may access invalid memory; such an access ends it with a rule violation.
void guarded(void (*body)(void*), void* with);

}  // namespace simulator

extern "C" {
// Installs the signal handlers, before the process enters the sandbox.
void simulator_open();
// The time limit of a launch in seconds; after it only some of the blocks run.
void simulator_budget(double seconds);
const char* simulator_report();
// The secret mark at the start of every report line, so that a candidate cannot forge one.
void simulator_mark(const char* word);
}
