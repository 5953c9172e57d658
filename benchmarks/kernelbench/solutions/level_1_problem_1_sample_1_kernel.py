"""Right: inline CUDA."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void double_plus_one_kernel(const float* x, float* out, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * 2.0f + 1.0f;
}

torch::Tensor double_plus_one(torch::Tensor x) {
  auto out = torch::empty_like(x);
  int64_t n = x.numel();
  double_plus_one_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
  return out;
}
"""

extension = load_inline(
    name="double_plus_one",
    cpp_sources="torch::Tensor double_plus_one(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["double_plus_one"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.double_plus_one(x)
