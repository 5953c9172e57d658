// gert::InferShapeContext: shapes of the inputs in, shapes of the outputs out.
#pragma once
#include "exe_graph/runtime/extended_kernel_context.h"

namespace gert {

class InferShapeContext : public ExtendedKernelContext {
 public:
  InferShapeContext(const twin::Node* node, std::vector<Shape>* outputs) : ExtendedKernelContext(node), outputs_(outputs) {}
  const Shape* GetInputShape(size_t index) const { return shape(input("GetInputShape", index)); }
  const Shape* GetRequiredInputShape(size_t index) const { return shape(input("GetRequiredInputShape", index)); }
  const Shape* GetOptionalInputShape(size_t index) const { return shape(input("GetOptionalInputShape", index)); }
  const Shape* GetDynamicInputShape(size_t index, size_t relative) const { return relative ? nullptr : GetInputShape(index); }
  const Tensor* GetInputTensor(size_t index) const { return input("GetInputTensor", index); }
  const Tensor* GetOptionalInputTensor(size_t index) const { return input("GetOptionalInputTensor", index); }
  Shape* GetOutputShape(size_t index) {
    if (index < outputs_->size()) return &(*outputs_)[index];
    twin::answeredNull("GetOutputShape", index, outputs_->size(), "outputs");
    return nullptr;
  }

 private:
  static const Shape* shape(const Tensor* tensor) { return tensor ? &tensor->GetStorageShape() : nullptr; }
  std::vector<Shape>* outputs_;
};

class InferShapeRangeContext : public ExtendedKernelContext {
 public:
  using ExtendedKernelContext::ExtendedKernelContext;
};

}  // namespace gert
