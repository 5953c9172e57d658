// Tiling in steps, as operator libraries for CANN write it: one class per strategy, tried in the order of their priorities.
#pragma once
#include <memory>
#include <sstream>
#include <string>

#include "exe_graph/runtime/tiling_context.h"
#include "graph/utils/type_utils.h"
#include "log/ops_log.h"
#include "tiling/platform/platform_ascendc.h"

#ifndef ASCENDC_EXTERN_C
#define ASCENDC_EXTERN_C
#endif

namespace optiling {

struct AiCoreParams {
  uint64_t ubSize = 0, blockDim = 0, aicNum = 0, l1Size = 0, l0aSize = 0, l0bSize = 0, l0cSize = 0;
};

class TilingBaseClass {
 public:
  TilingBaseClass() = default;
  explicit TilingBaseClass(gert::TilingContext* context) : context_(context) {}
  virtual ~TilingBaseClass() = default;
  virtual void Reset(gert::TilingContext* context) { context_ = context; }

  // GRAPH_PARAM_INVALID: this class does not support the call, so the next class is tried.
  ge::graphStatus DoTiling() {
    using Step = ge::graphStatus (TilingBaseClass::*)();
    for (Step step : {&TilingBaseClass::GetShapeAttrsInfo, &TilingBaseClass::GetPlatformInfo}) {
      ge::graphStatus status = (this->*step)();
      if (status != ge::GRAPH_SUCCESS) return status;
    }
    if (!IsCapable()) return ge::GRAPH_PARAM_INVALID;
    for (Step step : {&TilingBaseClass::DoOpTiling, &TilingBaseClass::DoLibApiTiling, &TilingBaseClass::GetWorkspaceSize, &TilingBaseClass::PostTiling}) {
      ge::graphStatus status = (this->*step)();
      if (status != ge::GRAPH_SUCCESS) return status;
    }
    context_->SetTilingKey(GetTilingKey());
    DumpTilingInfo();
    return ge::GRAPH_SUCCESS;
  }

 protected:
  virtual bool IsCapable() = 0;
  virtual ge::graphStatus GetPlatformInfo() = 0;
  virtual ge::graphStatus GetShapeAttrsInfo() = 0;
  virtual ge::graphStatus DoOpTiling() = 0;
  virtual ge::graphStatus DoLibApiTiling() = 0;
  [[nodiscard]] virtual uint64_t GetTilingKey() const = 0;
  virtual ge::graphStatus GetWorkspaceSize() = 0;
  virtual ge::graphStatus PostTiling() = 0;
  virtual void DumpTilingInfo() {}

  static uint32_t CalcTschBlockDim(uint32_t slices, uint32_t cubeCores, uint32_t vectorCores) {
    return platform_ascendc::PlatformAscendC(nullptr).CalcTschBlockDim(slices, cubeCores, vectorCores);
  }
  template <typename T> [[nodiscard]] std::string GetShapeDebugStr(const T& shape) const {
    std::ostringstream text;
    text << "[";
    for (size_t i = 0; i < shape.GetDimNum(); i++) text << (i ? ", " : "") << shape.GetDim(i);
    return text.str() + "]";
  }
  [[nodiscard]] std::string GetTilingContextDebugStr() { return ""; }
  [[nodiscard]] std::string GetTilingDataDebugStr() const { return ""; }

  gert::TilingContext* context_ = nullptr;
  std::unique_ptr<platform_ascendc::PlatformAscendC> ascendcPlatform_{nullptr};
  uint32_t blockDim_{0};
  uint64_t workspaceSize_{0};
  uint64_t tilingKey_{0};
  AiCoreParams aicoreParams_{};
};

}  // namespace optiling
