// The bench's door for Python: one call per case.
#include "bench.h"

#include "entry.h"

namespace simulator {
Entry& entry() {  // no operator is registered here
  static Entry one{};
  return one;
}
}  // namespace simulator

namespace bench {

std::map<std::string, Case>& cases() {
  static std::map<std::string, Case> all;
  return all;
}

}  // namespace bench

static std::string said;
alignas(512) static uint8_t global[bench::SLOT];

extern "C" {

const char* bench_said() { return said.c_str(); }
double bench_vector_cycles() { return simulator::core->counts.busy[simulator::V]; }
// 0: done; 1: a rule was broken (see bench_said); 2: no such case.
int bench_run(const char* name, const void* const* inputs, const int64_t* bytes, int count, const int64_t* numbers, void* output, int64_t outputBytes, int level) {
  simulator::level = static_cast<simulator::Level>(level);
  if (!simulator::core) simulator::core = new simulator::Core();
  simulator::core->reset(0);
  simulator::notes().clear();
  auto found = bench::cases().find(name);
  if (found == bench::cases().end()) return 2;
  for (int i = 0; i < count; i++) {
    memcpy(simulator::core->local + i * bench::SLOT, inputs[i], size_t(bytes[i]));
    memset(simulator::core->known + i * bench::SLOT, 1, size_t(bytes[i]));
    simulator::core->used(uint32_t(i) * bench::SLOT, uint64_t(bytes[i]));
  }
  uint32_t out = (bench::SLOTS - 1) * bench::SLOT;
  memset(simulator::core->local + out, 0, bench::SLOT);
  simulator::core->used(out, bench::SLOT);
  bench::Call call{numbers, global};
  auto start = reinterpret_cast<uintptr_t>(global);
  simulator::run.regions = {{start, start, start + bench::SLOT, "global", true, nullptr}};
  if (count) memcpy(global, inputs[0], size_t(bytes[0]));
  try {
    found->second(call);
  } catch (const simulator::Stop& stopped) {
    said = stopped.what();
    return 1;
  }
  memcpy(output, simulator::core->local + out, size_t(outputBytes));
  return 0;
}
}
