// fe::PlatFormInfos: the chip as the framework passes it on to host functions.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tiling/platform/platform_ascendc.h"

// CANN's header leaves these without a namespace, and host code relies on it.
using std::map;
using std::shared_ptr;
using std::string;
using std::vector;

namespace fe {

enum class LocalMemType { L0_A = 0, L0_B = 1, L0_C = 2, L1 = 3, L2 = 4, UB = 5, HBM = 6, RESERVED };

class PlatFormInfos {
 public:
  uint32_t GetCoreNum() const { return platform().GetCoreNum(); }
  void GetLocalMemSize(const LocalMemType& memory, uint64_t& size) const {
    platform().GetCoreMemSize(static_cast<platform_ascendc::CoreMemType>(memory), size);
  }
  bool GetPlatformResWithLock(const std::string&, const std::string&, std::string&) const { return false; }
  bool GetPlatformRes(const std::string&, const std::string&, std::string&) const { return false; }

 private:
  platform_ascendc::PlatformAscendC platform() const { return platform_ascendc::PlatformAscendC(this); }
};

}  // namespace fe
