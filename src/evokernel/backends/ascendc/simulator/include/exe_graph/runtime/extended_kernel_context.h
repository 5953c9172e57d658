// What every host function's context knows: the node, its tensors and attributes.
#pragma once
#include <vector>

#include "exe_graph/runtime/runtime_attrs.h"
#include "exe_graph/runtime/tensor.h"

namespace gert {

// Which inputs or outputs belong to one parameter of the definition: several where it is a list, none where it is absent.
class AnchorInstanceInfo {
 public:
  AnchorInstanceInfo(size_t start, size_t count) : start_(start), count_(count) {}
  size_t GetInstanceStart() const { return start_; }
  size_t GetInstanceNum() const { return count_; }

 private:
  size_t start_, count_;
};

}  // namespace gert

namespace twin {

// One call of an operator, as the host sees it. An optional input that was not given is there, but not `present`.
struct Node {
  std::string type;
  std::vector<gert::Tensor> inputs, outputs;
  std::vector<bool> present;
  std::vector<gert::AnchorInstanceInfo> inputLists, outputLists;  // which of them belong to the n-th parameter of the definition
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
  size_t GetIrInputsNum() const { return node_->inputLists.size(); }
  size_t GetIrOutputsNum() const { return node_->outputLists.size(); }
  size_t GetOutputsNum() const { return node_->outputs.size(); }
  const AnchorInstanceInfo* GetInputInstanceInfo(size_t index) const { return index < node_->inputLists.size() ? &node_->inputLists[index] : nullptr; }
  const AnchorInstanceInfo* GetOutputInstanceInfo(size_t index) const { return index < node_->outputLists.size() ? &node_->outputLists[index] : nullptr; }
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
    const Tensor* tensor = listed("GetOptionalInputDesc", index, 0);
    return tensor ? &tensor->twinDescription() : nullptr;
  }
  const CompileTimeTensorDesc* GetRequiredInputDesc(size_t index) const { return GetDynamicInputDesc(index, 0); }
  const CompileTimeTensorDesc* GetDynamicInputDesc(size_t index, size_t relative) const {
    const Tensor* tensor = listed("GetDynamicInputDesc", index, relative);
    return tensor ? &tensor->twinDescription() : nullptr;
  }
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
  // By the parameter of the definition, and the place in it where it is a list; how long that is, hosts find out by asking.
  const Tensor* listed(const char* call, size_t index, size_t relative) const {
    if (index >= node_->inputLists.size()) return input(call, node_->inputs.size());
    const AnchorInstanceInfo& list = node_->inputLists[index];
    if (relative && relative >= list.GetInstanceNum()) return nullptr;
    return input(call, list.GetInstanceStart() + relative);
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
