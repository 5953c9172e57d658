"""Kernels, tasks and helpers that the tests of the verifier share."""

import sys
from pathlib import Path

import pytest

from evokernel.core.plugins import make_plugin

needs_compiler = pytest.mark.skipif(make_plugin("backend", "cpp").unavailable_reason() is not None, reason="no C++ compiler")
HONEST = "def kernel(a):\n    a.outputs[0].data[...] = 2 * a.inputs[0].data\n"


SINE = """
import torch
from torch import nn
N = LENGTH
class Model(nn.Module):
    def forward(self, x):
        return x.sin()
def get_inputs():
    return [torch.randn(N)]
"""
SINE_KERNEL = """
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (int repeat = 0; repeat < REPEATS; ++repeat)
        for (int64_t i = 0; i < x_shape[0]; ++i) ((volatile float*)out)[i] = std::sin(x[i]);
}
"""
PRODUCT = """
import torch
from torch import nn
N, K, M = 64, 96, 80
class Model(nn.Module):
    def forward(self, a, b):
        return a @ b
def get_inputs():
    return [torch.randn(N, K), torch.randn(K, M)]
"""


def is_alive(pid: int) -> bool:
    """Whether a process still runs; a zombie does not."""
    if sys.platform != "linux":
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gains(outcome):
    """Whether a kernel passed and was measured as faster by a quarter than the kernel that it was timed alternately with."""
    return outcome.feasible and outcome.median_speedup("incumbent") > 1.25
