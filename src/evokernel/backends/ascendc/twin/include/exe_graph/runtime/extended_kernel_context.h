// What every host function's context knows: the node, its tensors and attributes.
#pragma once
#include <vector>

#include "exe_graph/runtime/runtime_attrs.h"
#include "exe_graph/runtime/tensor.h"

namespace twin {

// One call of an operator, as the host sees it. An optional input that was not given is there, but not `present`.
struct Node {
  std::string type;
  std::vector<gert::Tensor> inputs, outputs;
  std::vector<bool> present;
  gert::RuntimeAttrs attributes;
};

}  // namespace twin

namespace gert {

class ComputeNodeInfo {
 public:
  explicit ComputeNodeInfo(const twin::Node* node) : node_(node) {}
  const char* GetNodeType() const { return node_->type.c_str(); }
  const char* GetNodeName() const { return node_->type.c_str(); }
  size_t GetInputsNum() const { return node_->inputs.size(); }
  size_t GetIrInputsNum() const { return node_->inputs.size(); }
  size_t GetOutputsNum() const { return node_->outputs.size(); }
  const RuntimeAttrs* GetAttrs() const { return &node_->attributes; }

 private:
  const twin::Node* node_;
};

class ExtendedKernelContext {
 public:
  explicit ExtendedKernelContext(const twin::Node* node) : node_(node), info_(node) {}
  const char* GetNodeType() const { return info_.GetNodeType(); }
  const char* GetNodeName() const { return info_.GetNodeName(); }
  const char* GetKernelName() const { return info_.GetNodeName(); }
  const RuntimeAttrs* GetAttrs() const { return &node_->attributes; }
  const ComputeNodeInfo* GetComputeNodeInfo() const { return &info_; }
  size_t GetComputeNodeInputNum() const { return node_->inputs.size(); }
  size_t GetComputeNodeOutputNum() const { return node_->outputs.size(); }

  const CompileTimeTensorDesc* GetInputDesc(size_t index) const {
    const Tensor* tensor = input("GetInputDesc", index);
    return tensor ? &tensor->twinDescription() : nullptr;
  }
  const CompileTimeTensorDesc* GetOptionalInputDesc(size_t index) const {
    const Tensor* tensor = input("GetOptionalInputDesc", index);
    return tensor ? &tensor->twinDescription() : nullptr;
  }
  const CompileTimeTensorDesc* GetRequiredInputDesc(size_t index) const { return GetInputDesc(index); }
  const CompileTimeTensorDesc* GetDynamicInputDesc(size_t index, size_t relative) const { return relative ? nullptr : GetInputDesc(index); }
  const CompileTimeTensorDesc* GetOutputDesc(size_t index) const {
    const Tensor* tensor = output("GetOutputDesc", index);
    return tensor ? &tensor->twinDescription() : nullptr;
  }

 protected:
  const Tensor* input(const char* call, size_t index) const {
    if (index < node_->inputs.size() && node_->present[index]) return &node_->inputs[index];
    twin::answeredNull(call, index, node_->inputs.size(), "inputs");
    return nullptr;
  }
  const Tensor* output(const char* call, size_t index) const {
    if (index < node_->outputs.size()) return &node_->outputs[index];
    twin::answeredNull(call, index, node_->outputs.size(), "outputs");
    return nullptr;
  }

 private:
  const twin::Node* node_;
  ComputeNodeInfo info_;
};

}  // namespace gert
