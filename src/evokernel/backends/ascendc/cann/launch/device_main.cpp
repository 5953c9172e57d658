// Runs one kernel on an NPU or on CANN's simulator, launched directly without an operator project.
#include "acl/acl.h"
#include "entry.h"
#include "order.h"

static void check(int code, const char* what) {
  if (code == 0) return;
  std::fprintf(stderr, "evokernel: %s: error %d: %s\n", what, code, aclGetRecentErrMsg() ? aclGetRecentErrMsg() : "");
  std::exit(3);
}

int main(int count, char** words) {
  if (count != 2) giveUp("the argument must be", "the path of an order");
  Order order = readOrder(words[1]);
  if (order.parameters.size() != EVOKERNEL_PARAMETERS) giveUp("wrong number of parameters in", words[1]);
  aclrtStream stream = nullptr;
  check(aclInit(nullptr), "aclInit");
  check(aclrtSetDevice(0), "aclrtSetDevice");
  check(aclrtCreateStream(&stream), "aclrtCreateStream");
  uint8_t* places[EVOKERNEL_PARAMETERS];
  for (size_t i = 0; i < order.parameters.size(); ++i) {
    Parameter& parameter = order.parameters[i];
    std::vector<uint8_t> bytes = contents(parameter);
    check(aclrtMalloc(reinterpret_cast<void**>(&parameter.data), bytes.size() + 64, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    if (!bytes.empty()) {
      check(aclrtMemcpy(parameter.data, bytes.size() + 64, bytes.data(), bytes.size(), ACL_MEMCPY_HOST_TO_DEVICE), "copy to the NPU");
    }
    places[i] = parameter.data;
  }
  EVOKERNEL_ENTRY<<<order.blocks, nullptr, stream>>>(EVOKERNEL_ARGUMENTS(places));
  check(aclrtSynchronizeStream(stream), "the kernel");
  for (const Parameter& parameter : order.parameters) {
    if (parameter.kind != "out") continue;
    std::vector<uint8_t> bytes(parameter.bytes);
    check(aclrtMemcpy(bytes.data(), bytes.size(), parameter.data, bytes.size(), ACL_MEMCPY_DEVICE_TO_HOST), "copy from the NPU");
    writeOutput(parameter, bytes.data());
  }
  return 0;
}
