// Registration with PyTorch's dispatcher. The twin calls bound functions directly, so nothing is registered.
#pragma once
#include "ATen/ATen.h"

namespace torch {

using namespace at;
using at::Tensor;
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

#define TWIN_LIBRARY_(number, m) [[maybe_unused]] static void twinLibrary##number([[maybe_unused]] ::torch::Library& m)
#define TWIN_LIBRARY(number, m) TWIN_LIBRARY_(number, m)
#define TORCH_LIBRARY(space, m) TWIN_LIBRARY(__COUNTER__, m)
#define TORCH_LIBRARY_IMPL(space, key, m) TWIN_LIBRARY(__COUNTER__, m)
#define TORCH_LIBRARY_FRAGMENT(space, m) TWIN_LIBRARY(__COUNTER__, m)
#define TORCH_FN(function) &function
#define TORCH_SELECTIVE_NAME(name) name
