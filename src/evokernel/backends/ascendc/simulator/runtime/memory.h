// The kernel's arguments. The kernel gets addresses that are inaccessible at first. The API knows the location of the data. If a kernel uses such an
// address directly, the simulator notes it and maps the data there. The memory around the arguments stays inaccessible.
#pragma once
#include <utility>

#include "launch.h"

namespace simulator {

// At the start of a block: what it costs to read the tiling through a raw pointer, if an earlier block did.
void readTilingAgain();

class Arguments {
 public:
  explicit Arguments(const Launch& wanted);
  ~Arguments();
  Arguments(const Arguments&) = delete;
  std::vector<void*> pointers;  // as passed to the kernel

 private:
  std::vector<std::vector<uint16_t>> owners;
  std::vector<std::string> names;
  void* workspace = nullptr;
  void* tiling = nullptr;
  uint64_t workspaceBytes = 0, tilingBytes = 0;
  std::vector<std::pair<void*, uint64_t>> held;  // memory of lists
  void* showList(const Buffer& list);
  void* show(void* data, uint64_t bytes, const std::string& name, bool writable, bool tracked);
};

}  // namespace simulator
