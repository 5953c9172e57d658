// Properties of the chip that host code can query.
#pragma once
#include <cstdint>

#include "../../../runtime/chip.h"

namespace fe {
class PlatFormInfos;
}

namespace simulator {
fe::PlatFormInfos* platform();
bool kernelIsMixed();  // whether the kernel uses cube and vector cores
}  // namespace simulator

enum class NpuArch : uint32_t { DAV_2201 = 2201, DAV_RESV = 0xFFFF };

namespace platform_ascendc {

enum class CoreMemType { L0_A = 0, L0_B = 1, L0_C = 2, L1 = 3, L2 = 4, UB = 5, HBM = 6, FB = 7, BT = 8, RESERVED };

enum class SocVersion {
  ASCEND910 = 0,
  ASCEND910B,
  ASCEND310P,
  ASCEND310B,
  ASCEND950,
  ASCEND910_55,
  ASCEND910_95 = ASCEND950,
  ASCEND310 = 9,
  ASCEND910_93 = 12,
  RESERVED_VERSION = 99999
};

enum class ReservedSize { RESERVED_SIZE_8K, RESERVED_SIZE_16K, RESERVED_SIZE_32K };

class PlatformAscendC {
 public:
  explicit PlatformAscendC(const fe::PlatFormInfos*) {}
  uint32_t GetCoreNum() const { return simulator::kernelIsMixed() ? GetCoreNumAic() : GetCoreNumAiv(); }
  uint32_t GetCoreNumAic() const { return static_cast<uint32_t>(simulator::chip().aic_cores); }
  uint32_t GetCoreNumAiv() const { return static_cast<uint32_t>(simulator::chip().aiv_cores); }
  uint32_t GetCoreNumVector() const { return 0; }  // this chip has no additional vector cores
  // The number of blocks for `slices` pieces of work on cores that each consist of one cube core and its vector cores.
  uint32_t CalcTschBlockDim(uint32_t slices, uint32_t cubeCores, uint32_t vectorCores) const {
    if (cubeCores == 0 || vectorCores == 0 || cubeCores > vectorCores) return slices;
    uint32_t ratio = vectorCores / cubeCores;
    return (slices + ratio - 1) / ratio;
  }
  uint32_t CalcTschNumBlocks(uint32_t slices, uint32_t cubeCores, uint32_t vectorCores) const {
    return CalcTschBlockDim(slices, cubeCores, vectorCores);
  }
  uint32_t GetLibApiWorkSpaceSize() const { return 16 * 1024 * 1024; }
  uint32_t GetResCubeGroupWorkSpaceSize() const { return 16 * 1024 * 1024; }
  uint32_t GetResGroupBarrierWorkSpaceSize() const { return 16 * 1024 * 1024; }
  SocVersion GetSocVersion() const { return SocVersion::ASCEND910B; }
  NpuArch GetCurNpuArch() const { return NpuArch::DAV_2201; }
  void ReserveLocalMemory(ReservedSize size) { reserved_ = 8192u << static_cast<int>(size); }

  // Available bytes: the system reserves 256 bytes of UB and of L1.
  void GetCoreMemSize(const CoreMemType& memory, uint64_t& size) const {
    const simulator::Chip& chip = simulator::chip();
    double bytes = 0;
    switch (memory) {
      case CoreMemType::L0_A: bytes = chip.l0a_bytes; break;
      case CoreMemType::L0_B: bytes = chip.l0b_bytes; break;
      case CoreMemType::L0_C: bytes = chip.l0c_bytes; break;
      case CoreMemType::L1: bytes = chip.l1_bytes - SYSTEM_BYTES; break;
      case CoreMemType::L2: bytes = chip.l2_bytes; break;
      case CoreMemType::UB: bytes = chip.ub_bytes - SYSTEM_BYTES - reserved_; break;
      case CoreMemType::FB: bytes = chip.fb_bytes; break;
      case CoreMemType::BT: bytes = chip.bt_bytes; break;
      case CoreMemType::HBM: bytes = 64.0 * 1024 * 1024 * 1024; break;
      default: bytes = 0;
    }
    size = static_cast<uint64_t>(bytes);
  }
  // Bandwidth of one core in bytes per cycle.
  void GetCoreMemBw(const CoreMemType& memory, uint64_t& rate) const {
    const simulator::Chip& chip = simulator::chip();
    rate = 0;
    if (memory == CoreMemType::L2) rate = static_cast<uint64_t>(chip.l2_bytes_per_cycle / chip.aic_cores);
    if (memory == CoreMemType::HBM) rate = static_cast<uint64_t>(chip.hbm_bytes_per_cycle / chip.aic_cores);
  }

 private:
  static constexpr uint32_t SYSTEM_BYTES = 256;
  uint32_t reserved_ = 0;
};

class PlatformAscendCManager {
 public:
  static PlatformAscendC* GetInstance() {
    static PlatformAscendC only(simulator::platform());
    return &only;
  }
  static PlatformAscendC* GetInstance(const char*) { return GetInstance(); }
};

}  // namespace platform_ascendc
