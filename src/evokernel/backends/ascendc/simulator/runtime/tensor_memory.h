// The initial contents of new tensors in a binding: a tensor of an output's size gets the bits of that output, so that elements that a kernel does not write stay visible.
#pragma once
#include <memory>
#include <vector>

#include "registry.h"

namespace simulator {

class ExpectedOutputs {
 public:
  explicit ExpectedOutputs(const std::vector<Operand>& outputs);
  ~ExpectedOutputs();
  ExpectedOutputs(const ExpectedOutputs&) = delete;
};

// A tensor with these values. `memory` owns it.
Operand tensorOfValues(const std::vector<double>& values, ge::DataType type, std::shared_ptr<void>& memory);

}  // namespace simulator
