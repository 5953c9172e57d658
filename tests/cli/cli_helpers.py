"""A task with a kernel, and the result of a command."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

TASK = """
import torch
import torch.nn as nn

ROWS, COLS = 64, 48


class Model(nn.Module):
    def forward(self, x):
        return x * 2 + 1


def get_inputs():
    return [torch.randn(ROWS, COLS)]
"""
KERNEL = """
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (int64_t i = 0; i < x_shape[0] * x_shape[1]; ++i) out[i] = x[i] * 2 + 1;
}
"""


class CommandResult(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., CommandResult]
