// IMPL_OP and its kin: host functions named outside of the OpDef.
#pragma once
#include <initializer_list>
#include <iostream>

#include "../../runtime/registry.h"

namespace gert {

class OpImplRegister {
 public:
  explicit OpImplRegister(const char* type) : functions_(&twin::implementation(type)) {}
  OpImplRegister& Tiling(twin::TilingFunction function, size_t = 2048) {
    functions_->tiling = function;
    return *this;
  }
  template <class CompileInfo>
  OpImplRegister& TilingParse(twin::ParseFunction function) {
    functions_->parse = function;
    return *this;
  }
  OpImplRegister& InferShape(twin::ShapeFunction function) {
    functions_->shape = function;
    return *this;
  }
  OpImplRegister& InferDataType(twin::TypeFunction function) {
    functions_->type = function;
    return *this;
  }
  template <class Function>
  OpImplRegister& InferShapeRange(Function) {
    return *this;
  }
  OpImplRegister& InputsDataDependency(std::initializer_list<int32_t>) { return *this; }
  OpImplRegister& TilingInputsDataDependency(std::initializer_list<int32_t>) { return *this; }
  template <class Value>
  OpImplRegister& PrivateAttr(const char*, Value) {
    return *this;
  }

 private:
  twin::HostFunctions* functions_;
};

}  // namespace gert

#define TWIN_JOIN_(one, other) one##other
#define TWIN_JOIN(one, other) TWIN_JOIN_(one, other)
#define IMPL_OP(opType) [[maybe_unused]] static ::gert::OpImplRegister TWIN_JOIN(twinImplementation##opType, __COUNTER__) = ::gert::OpImplRegister(#opType)
#define IMPL_OP_OPTILING(opType) IMPL_OP(opType)
#define IMPL_OP_INFERSHAPE(opType) IMPL_OP(opType)
#define IMPL_OP_INFERDATATYPE(opType) IMPL_OP(opType)
