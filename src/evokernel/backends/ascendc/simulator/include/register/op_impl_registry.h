// IMPL_OP and related macros: host functions registered outside the OpDef.
#pragma once
#include <initializer_list>
#include <iostream>

#include "../../runtime/registry.h"

namespace gert {

class OpImplRegister {
 public:
  explicit OpImplRegister(const char* type) : functions_(&simulator::implementation(type)) {}
  OpImplRegister& Tiling(simulator::TilingFunction function, size_t = 2048) {
    functions_->tiling = function;
    return *this;
  }
  template <class CompileInfo>
  OpImplRegister& TilingParse(simulator::ParseFunction function) {
    functions_->parse = function;
    return *this;
  }
  OpImplRegister& InferShape(simulator::ShapeFunction function) {
    functions_->shape = function;
    return *this;
  }
  OpImplRegister& InferDataType(simulator::TypeFunction function) {
    functions_->type = function;
    return *this;
  }
  template <class Function>
  OpImplRegister& InferShapeRange(Function) {
    return *this;
  }
  // The host functions may read the values of these inputs.
  OpImplRegister& InputsDataDependency(std::initializer_list<int32_t> inputs) { return TilingInputsDataDependency(inputs); }
  OpImplRegister& TilingInputsDataDependency(std::initializer_list<int32_t> inputs) {
    functions_->valueInputs.insert(inputs.begin(), inputs.end());
    return *this;
  }
  template <class Value>
  OpImplRegister& PrivateAttr(const char*, Value) {
    return *this;
  }

 private:
  simulator::HostFunctions* functions_;
};

}  // namespace gert

#define SIMULATOR_JOIN_(one, other) one##other
#define SIMULATOR_JOIN(one, other) SIMULATOR_JOIN_(one, other)
#define IMPL_OP(opType) [[maybe_unused]] static ::gert::OpImplRegister SIMULATOR_JOIN(simulatorImplementation##opType, __COUNTER__) = ::gert::OpImplRegister(#opType)
#define IMPL_OP_OPTILING(opType) IMPL_OP(opType)
#define IMPL_OP_INFERSHAPE(opType) IMPL_OP(opType)
#define IMPL_OP_INFERDATATYPE(opType) IMPL_OP(opType)
