// gert::InferDataTypeContext: computes the element types of the outputs from those of the inputs.
#pragma once
#include "exe_graph/runtime/extended_kernel_context.h"

namespace gert {

class InferDataTypeContext : public ExtendedKernelContext {
 public:
  InferDataTypeContext(const simulator::Node* node, std::vector<ge::DataType>* outputs) : ExtendedKernelContext(node), outputs_(outputs) {}
  ge::DataType GetInputDataType(size_t index) const { return type(input("GetInputDataType", index)); }
  ge::DataType GetRequiredInputDataType(size_t index) const { return GetInputDataType(index); }
  ge::DataType GetOptionalInputDataType(size_t index) const { return GetInputDataType(index); }
  ge::DataType GetDynamicInputDataType(size_t index, size_t relative) const { return relative ? ge::DT_UNDEFINED : GetInputDataType(index); }
  ge::DataType GetOutputDataType(size_t index) const { return index < outputs_->size() ? (*outputs_)[index] : ge::DT_UNDEFINED; }
  ge::graphStatus SetOutputDataType(size_t index, ge::DataType type) {
    if (index >= outputs_->size()) return ge::GRAPH_FAILED;
    (*outputs_)[index] = type;
    return ge::GRAPH_SUCCESS;
  }

 private:
  static ge::DataType type(const Tensor* tensor) { return tensor ? tensor->GetDataType() : ge::DT_UNDEFINED; }
  std::vector<ge::DataType>* outputs_;
};

}  // namespace gert
