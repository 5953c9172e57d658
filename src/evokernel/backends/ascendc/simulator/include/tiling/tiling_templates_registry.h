// The tiling classes of an operator by priority: the class with the lowest number is tried first.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tiling/tiling_base.h"

namespace optiling {

using TilingClassCase = std::unique_ptr<TilingBaseClass> (*)(gert::TilingContext*);

template <typename T> std::unique_ptr<TilingBaseClass> TILING_CLASS(gert::TilingContext* context) { return std::make_unique<T>(context); }

class TilingRegistry {
 public:
  static TilingRegistry& GetInstance() {
    static TilingRegistry only;
    return only;
  }
  template <typename T> void simulatorAdd(const std::string& type, int32_t priority) { cases_[type][priority] = TILING_CLASS<T>; }
  const std::map<int32_t, TilingClassCase>& GetTilingTemplates(const std::string& type) { return cases_[type]; }

  ge::graphStatus DoTilingImpl(gert::TilingContext* context) {
    for (const auto& one : GetTilingTemplates(context->GetNodeType())) {
      ge::graphStatus status = one.second(context)->DoTiling();
      if (status != ge::GRAPH_PARAM_INVALID) return status;
    }
    return ge::GRAPH_FAILED;
  }
  ge::graphStatus DoTilingImpl(gert::TilingContext* context, const std::vector<int32_t>& priorities) {
    const auto& cases = GetTilingTemplates(context->GetNodeType());
    for (int32_t priority : priorities) {
      auto found = cases.find(priority);
      if (found != cases.end() && found->second(context)->DoTiling() == ge::GRAPH_SUCCESS) return ge::GRAPH_SUCCESS;
    }
    return ge::GRAPH_FAILED;
  }

 private:
  std::map<std::string, std::map<int32_t, TilingClassCase>> cases_;
};

class Register {
 public:
  explicit Register(std::string type) : type_(std::move(type)) {}
  template <typename T> Register& tiling(int32_t priority) {
    TilingRegistry::GetInstance().simulatorAdd<T>(type_, priority);
    return *this;
  }

 private:
  std::string type_;
};

}  // namespace optiling

#define REGISTER_TILING_TEMPLATE(opType, className, priority) \
  [[maybe_unused]] static ::optiling::Register className##priority##Registered = ::optiling::Register(opType).tiling<className>(priority)
#define REGISTER_OPS_TILING_TEMPLATE(opType, className, priority) REGISTER_TILING_TEMPLATE(#opType, className, priority)
