// gert::InferShapeContext: computes the shapes of the outputs from the shapes of the inputs.
#pragma once
#include "exe_graph/runtime/extended_kernel_context.h"

namespace gert {

class InferShapeContext : public ExtendedKernelContext {
 public:
  InferShapeContext(const simulator::Node* node, std::vector<Shape>* outputs) : ExtendedKernelContext(node), outputs_(outputs) {}
  const Shape* GetInputShape(size_t index) const { return shape(input("GetInputShape", index)); }
  const Shape* GetRequiredInputShape(size_t index) const { return shape(input("GetRequiredInputShape", index)); }
  const Shape* GetOptionalInputShape(size_t index) const { return shape(input("GetOptionalInputShape", index)); }
  const Shape* GetDynamicInputShape(size_t index, size_t relative) const { return relative ? nullptr : GetInputShape(index); }
  const Tensor* GetInputTensor(size_t index) const { return input("GetInputTensor", index); }
  const Tensor* GetOptionalInputTensor(size_t index) const { return input("GetOptionalInputTensor", index); }
  Shape* GetOutputShape(size_t index) {
    if (index < outputs_->size()) return &(*outputs_)[index];
    simulator::answeredNull("GetOutputShape", index, outputs_->size(), "outputs");
    return nullptr;
  }

 private:
  static const Shape* shape(const Tensor* tensor) { return tensor ? &tensor->GetStorageShape() : nullptr; }
  std::vector<Shape>* outputs_;
};

template <class T>
class Range {
 public:
  Range() = default;
  Range(T* least, T* most) : least_(least), most_(most) {}
  explicit Range(T* only) : Range(only, only) {}
  const T* GetMin() const { return least_; }
  const T* GetMax() const { return most_; }
  T* GetMin() { return least_; }
  T* GetMax() { return most_; }
  void SetMin(T* value) { least_ = value; }
  void SetMax(T* value) { most_ = value; }

 private:
  T *least_ = nullptr, *most_ = nullptr;
};

// For graphs with unknown sizes. The simulator has none, so it never calls these functions.
class InferShapeRangeContext : public ExtendedKernelContext {
 public:
  using ExtendedKernelContext::ExtendedKernelContext;
  const Range<Shape>* GetInputShapeRange(size_t) const { return nullptr; }
  Range<Shape>* GetOutputShapeRange(size_t) const { return nullptr; }
};

}  // namespace gert
