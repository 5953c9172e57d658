// Registration with PyTorch's dispatcher. The simulator calls bound functions directly and registers nothing.
#pragma once
#include "ATen/ATen.h"

namespace torch {

using namespace at;
using at::Tensor;
using Dtype = at::ScalarType;
constexpr auto kUInt8 = at::kByte, kInt8 = at::kChar, kInt16 = at::kShort, kInt32 = at::kInt, kInt64 = at::kLong;
constexpr auto kFloat16 = at::kHalf, kFloat32 = at::kFloat, kFloat64 = at::kDouble;

class Library {
 public:
  template <class... What>
  Library& def(What&&...) {
    return *this;
  }
  template <class... What>
  Library& impl(What&&...) {
    return *this;
  }
};

template <class Function>
Function dispatch(DeviceType, Function function) {
  return function;
}

}  // namespace torch

#define SIMULATOR_LIBRARY_(number, m) [[maybe_unused]] static void simulatorLibrary##number([[maybe_unused]] ::torch::Library& m)
#define SIMULATOR_LIBRARY(number, m) SIMULATOR_LIBRARY_(number, m)
#define TORCH_LIBRARY(space, m) SIMULATOR_LIBRARY(__COUNTER__, m)
#define TORCH_LIBRARY_IMPL(space, key, m) SIMULATOR_LIBRARY(__COUNTER__, m)
#define TORCH_LIBRARY_FRAGMENT(space, m) SIMULATOR_LIBRARY(__COUNTER__, m)
#define TORCH_FN(function) &function
#define TORCH_SELECTIVE_NAME(name) name
