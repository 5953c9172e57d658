// What new tensors of a bind hold: the outputs' own bits where one has an output's size, so that what a kernel leaves out stays visible.
#pragma once
#include <vector>

#include "registry.h"

namespace twin {

class ExpectedOutputs {
 public:
  explicit ExpectedOutputs(const std::vector<Operand>& outputs);
  ~ExpectedOutputs();
  ExpectedOutputs(const ExpectedOutputs&) = delete;
};

}  // namespace twin
