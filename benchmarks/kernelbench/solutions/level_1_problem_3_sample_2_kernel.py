"""Wrong: no code that compiles."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(
    name="broken",
    cpp_sources="torch::Tensor broken(torch::Tensor x);",
    cuda_sources="torch::Tensor broken(torch::Tensor x) { return undefined_name(x); }",
    functions=["broken"],
)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()

    def forward(self, x):
        return extension.broken(x)
