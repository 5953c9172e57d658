// Runs one kernel of a library on the simulator with arrays from Python: the kernel is found by name, its tiling data is what the test gives.
#include <cstring>
#include <dlfcn.h>
#include <string>

#include "launch.h"
#include "diagnose.h"

namespace {

std::string error;
void (*kernel)(unsigned char* const*) = nullptr;

void call(void** arguments) { kernel(reinterpret_cast<unsigned char**>(arguments)); }

}  // namespace

extern "C" {

const char* last_error() { return error.c_str(); }
const char* report() { return simulator_report(); }

// 0: ran; 1: a rule was broken, see last_error.
int run_kernel(void* entry, int argumentCount, void** data, const uint64_t* bytes, const void* tiling, uint64_t tilingBytes,
               uint32_t blocks, int flags) {
  simulator::Launch wanted;
  wanted.op = "test";
  wanted.blockDim = blocks;
  wanted.workspaceBytes = 17 << 20;  // of which the library has 16
  for (int i = 0; i < argumentCount; i++) wanted.arguments.push_back({data[i], bytes[i], "argument" + std::to_string(i), true});
  auto first = static_cast<const uint8_t*>(tiling);
  wanted.tiling.assign(first, first + tilingBytes);
  kernel = reinterpret_cast<void (*)(unsigned char* const*)>(entry);
  simulator::entry() = {call, argumentCount + 2, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0};
  simulator::clearViolations();
  error.clear();
  try {
    simulator::launch(wanted);
  } catch (const std::exception& stopped) {
    error = stopped.what();
    return 1;
  }
  return 0;
}
}
