// Registers functions on ge::Operator that verify a call or infer the outputs of an operator.
#pragma once
#include "../../runtime/registry.h"
#include "graph/operator.h"

namespace simulator {

struct GraphEntry {
  GraphEntry(const char* type, GraphFunction verify, GraphFunction infer) {
    HostFunctions& functions = implementation(type);
    if (verify) functions.verifyGraph = verify;
    if (infer) functions.inferGraph = infer;
  }
};

}  // namespace simulator

#define IMPLEMT_COMMON_INFERFUNC(function) static ::ge::graphStatus function(::ge::Operator& op)
#define IMPLEMT_INFERFUNC(opType, function) IMPLEMT_COMMON_INFERFUNC(function)
#define IMPLEMT_VERIFIER(opType, function) IMPLEMT_COMMON_INFERFUNC(function)
#define COMMON_INFER_FUNC_REG(opType, function) [[maybe_unused]] static const ::simulator::GraphEntry simulatorInfer##opType(#opType, nullptr, function)
#define INFER_FUNC_REG(opType, function) COMMON_INFER_FUNC_REG(opType, function)
#define VERIFY_FUNC_REG(opType, function) [[maybe_unused]] static const ::simulator::GraphEntry simulatorVerify##opType(#opType, function, nullptr)
