// The configuration of Matmul. The settings control intermediate steps of the cube; the simulator computes the same product with all of them.
#pragma once
#include <cstdint>

namespace AscendC {

enum class BatchMode { NONE, BATCH_LESS_THAN_L1, BATCH_LARGE_THAN_L1, SINGLE_LARGE_THAN_L1 };
enum class IterateMode : uint8_t {
  ITERATE_MODE_NORMAL = 1,
  ITERATE_MODE_ALL = 2,
  ITERATE_MODE_BATCH = 4,
  ITERATE_MODE_N_BATCH = 8,
  ITERATE_MODE_DEFAULT = 255
};
enum class IterateOrder { ORDER_M, ORDER_N, UNDEF };
enum class ScheduleType { INNER_PRODUCT, OUTER_PRODUCT, N_BUFFER_33 };

struct MatmulConfig {
  bool doNorm = true, doBasicBlock = false, doMultiDataLoad = false;
  uint32_t basicM = 0, basicN = 0, basicK = 0;
  bool intrinsicsCheck = false, isNBatch = false, enVecND2NZ = false, doSpecialBasicBlock = false;
  uint32_t doMTE2Preload = 0, singleCoreM = 0, singleCoreN = 0, singleCoreK = 0, stepM = 0, stepN = 0, baseMN = 0, singleCoreMN = 0;
  bool enUnitFlag = false, isPerTensor = false, hasAntiQuantOffset = false, doIBShareNorm = false, doSpecialMDL = false, enableInit = true;
  BatchMode batchMode = BatchMode::NONE;
  bool enableEnd = true, enableGetTensorC = true, enableSetOrgShape = true, enableSetBias = true, enableSetTail = true,
       enableQuantVector = true;
  bool enableSetDefineData = true;
  IterateMode iterateMode = IterateMode::ITERATE_MODE_DEFAULT;
  bool enableReuse = true, enableUBReuse = true, enableL1CacheUB = false, intraBlockPartSum = false;
  IterateOrder iterateOrder = IterateOrder::UNDEF;
  ScheduleType scheduleType = ScheduleType::INNER_PRODUCT;
  bool enableDoubleCache = false, isBiasBatch = true, enableStaticPadZeros = false, isPartialOutput = false, enableMixDualMaster = false;
};
struct MatmulApiStaticTiling : MatmulConfig {};
struct MatmulShapeParams {
  uint32_t singleCoreM = 0, singleCoreN = 0, singleCoreK = 0, basicM = 0, basicN = 0, basicK = 0;
};

constexpr MatmulConfig CFG_NORM{}, CFG_MDL{false, false, true}, MM_CFG_BB{false, true, false}, CFG_IBSHARE_NORM{};
template <typename... Settings> constexpr MatmulConfig GetNormalConfig(Settings...) { return MatmulConfig{}; }
template <typename... Settings> constexpr MatmulConfig GetMDLConfig(Settings...) { return MatmulConfig{false, false, true}; }
template <typename... Settings> constexpr MatmulConfig GetSpecialMDLConfig(Settings...) { return MatmulConfig{false, false, true}; }
template <typename... Settings> constexpr MatmulConfig GetBasicConfig(Settings...) { return MatmulConfig{false, true, false}; }
template <typename... Settings> constexpr MatmulConfig GetSpecialBasicConfig(Settings...) { return MatmulConfig{false, true, false}; }
template <typename... Settings> constexpr MatmulConfig GetIBShareNormConfig(Settings...) { return MatmulConfig{}; }

template <auto copyOut = nullptr, auto copyA = nullptr, auto copyB = nullptr> struct MatmulCallBackFunc {
  static_assert(copyOut == nullptr && copyA == nullptr && copyB == nullptr, "custom copy functions inside Matmul are not supported");
};

}  // namespace AscendC
