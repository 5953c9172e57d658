// The common base of host function contexts: the node, its tensors and attributes.
#pragma once
#include <vector>

#include "exe_graph/runtime/runtime_attrs.h"
#include "exe_graph/runtime/tensor.h"

namespace gert {

// The inputs or outputs of one parameter of the definition: several for a list, none for an absent one.
class AnchorInstanceInfo {
 public:
  AnchorInstanceInfo(size_t start, size_t count) : start_(start), count_(count) {}
  size_t GetInstanceStart() const { return start_; }
  size_t GetInstanceNum() const { return count_; }

 private:
  size_t start_, count_;
};

}  // namespace gert

namespace simulator {

// One call of an operator, as the host sees it. An absent optional input has an entry that is not `present`.
struct Node {
  std::string type;
  std::vector<gert::Tensor> inputs, outputs;
  std::vector<bool> present;
  std::vector<gert::AnchorInstanceInfo> inputLists, outputLists;  // the ones that belong to the n-th parameter of the definition
  gert::RuntimeAttrs attributes;
};

}  // namespace simulator

namespace gert {

class ComputeNodeInfo {
 public:
  explicit ComputeNodeInfo(const simulator::Node* node) : node_(node) {}
  const char* GetNodeType() const { return node_->type.c_str(); }
  const char* GetNodeName() const { return node_->type.c_str(); }
  size_t GetInputsNum() const { return node_->inputs.size(); }
  size_t GetIrInputsNum() const { return node_->inputLists.size(); }
  size_t GetIrOutputsNum() const { return node_->outputLists.size(); }
  size_t GetOutputsNum() const { return node_->outputs.size(); }
  const AnchorInstanceInfo* GetInputInstanceInfo(size_t index) const { return index < node_->inputLists.size() ? &node_->inputLists[index] : nullptr; }
  const AnchorInstanceInfo* GetOutputInstanceInfo(size_t index) const { return index < node_->outputLists.size() ? &node_->outputLists[index] : nullptr; }
  const RuntimeAttrs* GetAttrs() const { return &node_->attributes; }

 private:
  const simulator::Node* node_;
};

class ExtendedKernelContext {
 public:
  explicit ExtendedKernelContext(const simulator::Node* node) : node_(node), info_(node) {}
  const char* GetNodeType() const { return info_.GetNodeType(); }
  const char* GetNodeName() const { return info_.GetNodeName(); }
  const char* GetKernelName() const { return info_.GetNodeName(); }
  const RuntimeAttrs* GetAttrs() const { return &node_->attributes; }
  const ComputeNodeInfo* GetComputeNodeInfo() const { return &info_; }
  size_t GetComputeNodeInputNum() const { return node_->inputs.size(); }
  size_t GetComputeNodeOutputNum() const { return node_->outputs.size(); }

  const CompileTimeTensorDesc* GetInputDesc(size_t index) const {
    const Tensor* tensor = input("GetInputDesc", index);
    return tensor ? &tensor->simulatorDescription() : nullptr;
  }
  const CompileTimeTensorDesc* GetOptionalInputDesc(size_t index) const {
    const Tensor* tensor = listed("GetOptionalInputDesc", index, 0);
    return tensor ? &tensor->simulatorDescription() : nullptr;
  }
  const CompileTimeTensorDesc* GetRequiredInputDesc(size_t index) const { return GetDynamicInputDesc(index, 0); }
  const CompileTimeTensorDesc* GetDynamicInputDesc(size_t index, size_t relative) const {
    const Tensor* tensor = listed("GetDynamicInputDesc", index, relative);
    return tensor ? &tensor->simulatorDescription() : nullptr;
  }
  const CompileTimeTensorDesc* GetOutputDesc(size_t index) const {
    const Tensor* tensor = output("GetOutputDesc", index);
    return tensor ? &tensor->simulatorDescription() : nullptr;
  }

 protected:
  const Tensor* input(const char* call, size_t index) const {
    if (index < node_->inputs.size() && node_->present[index]) return &node_->inputs[index];
    simulator::answeredNull(call, index, node_->inputs.size(), "inputs");
    return nullptr;
  }
  // By parameter of the definition, and index in it if it is a list. Host code finds the length by querying until it gets null.
  const Tensor* listed(const char* call, size_t index, size_t relative) const {
    if (index >= node_->inputLists.size()) return input(call, node_->inputs.size());
    const AnchorInstanceInfo& list = node_->inputLists[index];
    if (relative && relative >= list.GetInstanceNum()) return nullptr;
    return input(call, list.GetInstanceStart() + relative);
  }
  const Tensor* output(const char* call, size_t index) const {
    if (index < node_->outputs.size()) return &node_->outputs[index];
    simulator::answeredNull(call, index, node_->outputs.size(), "outputs");
    return nullptr;
  }

 private:
  const simulator::Node* node_;
  ComputeNodeInfo info_;
};

}  // namespace gert
