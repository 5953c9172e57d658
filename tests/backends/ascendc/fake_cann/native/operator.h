// An operator package's interface over an operator that the simulator runs. interface.cpp, written for each operator, fills in the functions.
#pragma once
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "acl.h"

// As the simulator's loader has it.
struct SimulatorArgument {
  int32_t kind;
  int32_t dtype;
  int32_t rank;
  int32_t pad;
  int64_t dims[8];
  void* data;
  int64_t integer;
  double number;
};

extern "C" {
int simulator_run(const char* op, const SimulatorArgument* inputs, int inputCount, const SimulatorArgument* attributes, int attributeCount,
             const SimulatorArgument* outputs, int outputCount);
const char* simulator_error();
const char* simulator_report();
int simulator_configure(const char* text);
void simulator_level(int level);
}

struct Prepared {
  std::vector<SimulatorArgument> inputs;
  std::vector<SimulatorArgument> attributes;
  std::vector<SimulatorArgument> outputs;
};

inline SimulatorArgument tensor(const aclTensor* given) {
  SimulatorArgument made = {};
  if (!given) return made;
  // The simulator's number of a type, by that of acl_base.h.
  static const int types[] = {8, 6, 2, 4, 1, -1, 3, -1, -1, 5, -1, 9, 0};
  made.kind = 1;
  made.dtype = given->type == 27 ? 7 : types[given->type];
  made.rank = given->rank;
  std::memcpy(made.dims, given->dims, sizeof(made.dims));
  made.data = given->data;
  return made;
}

inline SimulatorArgument scalar(int64_t value) {
  SimulatorArgument made = {};
  made.kind = 2;
  made.integer = value;
  return made;
}

inline SimulatorArgument scalar(double value) {
  SimulatorArgument made = {};
  made.kind = 3;
  made.number = value;
  return made;
}

inline SimulatorArgument scalar(bool value) {
  SimulatorArgument made = {};
  made.kind = 4;
  made.integer = value;
  return made;
}

// For the profiler: a line for every launch, in a file next to the package.
inline void keepReport() {
  Dl_info here;
  if (!dladdr(reinterpret_cast<void*>(&keepReport), &here)) return;
  std::string path = here.dli_fname;
  for (int up = 0; up < 3; ++up) path.resize(path.rfind('/'));
  std::FILE* file = std::fopen((path + "/report.jsonl").c_str(), "a");
  if (!file) return;
  std::fprintf(file, "%s\n", simulator_report());
  std::fclose(file);
}

inline int launch(const char* op, void* executor, uint64_t workspace) {
  Prepared* prepared = static_cast<Prepared*>(executor);
  if (workspace != 128) return 161002;
  const int code = simulator_run(op, prepared->inputs.data(), static_cast<int>(prepared->inputs.size()), prepared->attributes.data(),
                            static_cast<int>(prepared->attributes.size()), prepared->outputs.data(),
                            static_cast<int>(prepared->outputs.size()));
  if (code) fakeFail(507035, simulator_error());
  delete prepared;
  keepReport();
  return 0;
}
