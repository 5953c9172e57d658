// The registry between a project's host code and the runtime: operators, their host functions and bound functions, by name.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "exe_graph/runtime/infer_datatype_context.h"
#include "exe_graph/runtime/infer_shape_context.h"
#include "exe_graph/runtime/tiling_context.h"
#include "exe_graph/runtime/tiling_parse_context.h"
#include "graph/operator.h"

namespace ops {
class OpDef;
}

namespace simulator {

using TilingFunction = ge::graphStatus (*)(gert::TilingContext*);
using ParseFunction = ge::graphStatus (*)(gert::TilingParseContext*);
using ShapeFunction = ge::graphStatus (*)(gert::InferShapeContext*);
using TypeFunction = ge::graphStatus (*)(gert::InferDataTypeContext*);
using SupportFunction = ge::graphStatus (*)(const ge::Operator&, ge::AscendString&);
using GraphFunction = ge::graphStatus (*)(ge::Operator&);

// The host functions of an operator, registered by OpDef or by IMPL_OP and related macros.
struct HostFunctions {
  TilingFunction tiling = nullptr;
  ParseFunction parse = nullptr;
  ShapeFunction shape = nullptr;
  TypeFunction type = nullptr;
  SupportFunction support = nullptr;
  GraphFunction verifyGraph = nullptr, inferGraph = nullptr;
  std::set<int32_t> valueInputs;  // indices of inputs whose values the host functions read
};

using MakeOperator = ops::OpDef* (*)(const char* type);
void addOperator(const char* type, MakeOperator make);
HostFunctions& implementation(const char* type);

// Calls the functions that only a graph uses: whether it supports the operator, and what they infer. aclnn does not call them.
void callGraphFunctions(const ops::OpDef& op, const Node& node);

// Records the bytes that the tiling class saved, for comparison with SetDataSize.
void savedTiling(size_t bytes, size_t capacity, const char* name);

// One operand of an operator, or one argument of a bound function.
struct Operand {
  enum Kind { ABSENT, TENSOR, INTEGER, NUMBER, BOOLEAN, INTEGERS, TEXT, TENSORS, NUMBERS };
  Kind kind = ABSENT;
  ge::DataType type = ge::DT_FLOAT;
  std::vector<int64_t> shape;  // shape of a tensor, or the list of integers
  void* data = nullptr;
  bool isCopy = false, isOnHost = false;  // a tensor that the call may change; one in the memory of the host
  int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<double> numbers;
  std::vector<Operand> items;  // the tensors of a list
  uint32_t bytes = 0;  // size of its C++ type; 0 if irrelevant
};

// Runs an operator with inputs, attributes and outputs in the order of its definition.
void runOperator(const std::string& type, const std::vector<Operand>& inputs, const std::vector<Operand>& attributes,
                 const std::vector<Operand>& outputs);

// The same from one list, as in EXEC_NPU_CMD; `command` begins with aclnn.
void runCommand(const char* command, const std::vector<Operand>& operands);

}  // namespace simulator
