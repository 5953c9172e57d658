// Runs one kernel in CANN's CPU debug mode (tikicpulib): without an NPU and without times, but with the toolkit's checks.
#include "tikicpulib.h"
#include "entry.h"
#include "order.h"

int main(int count, char** words) {
  if (count != 2) giveUp("the argument must be", "the path of an order");
  Order order = readOrder(words[1]);
  if (order.parameters.size() != EVOKERNEL_PARAMETERS) giveUp("wrong number of parameters in", words[1]);
  uint8_t* places[EVOKERNEL_PARAMETERS];
  for (size_t i = 0; i < order.parameters.size(); ++i) {
    Parameter& parameter = order.parameters[i];
    std::vector<uint8_t> bytes = contents(parameter);
    parameter.data = static_cast<uint8_t*>(AscendC::GmAlloc(bytes.size() + 64));
    std::memcpy(parameter.data, bytes.data(), bytes.size());
    places[i] = parameter.data;
  }
  AscendC::SetKernelMode(KernelMode::AIV_MODE);
  ICPU_SET_TILING_KEY(EVOKERNEL_KEY);
  ICPU_RUN_KF(EVOKERNEL_ENTRY, order.blocks, EVOKERNEL_ARGUMENTS(places));
  for (const Parameter& parameter : order.parameters) {
    writeOutput(parameter, parameter.data);
    AscendC::GmFree(parameter.data);
  }
  return 0;
}
