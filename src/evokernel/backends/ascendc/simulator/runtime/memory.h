// The kernel's arguments as it sees them. It is given addresses nobody can use at first: the API knows where the data is, and who uses such an
// address without it is noticed, and gets the data then. What lies around them stays out of reach.
#pragma once
#include <utility>

#include "launch.h"

namespace twin {

class Arguments {
 public:
  explicit Arguments(const Launch& wanted);
  ~Arguments();
  Arguments(const Arguments&) = delete;
  std::vector<void*> pointers;  // as the kernel is given them

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

}  // namespace twin
