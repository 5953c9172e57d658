"""Without a GPU, `evokernel verify` in a fresh process with a clean environment decides about kernels by interpreting them."""

import importlib.util
import os
import subprocess
import sys

import pytest
from time_limits import HANG_S

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed (no wheel for this system)")
SOFTMAX = """
import triton
import triton.language as tl


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=float("-inf"))
    x = tl.exp(x - tl.reduce(x, 0, larger))
    tl.store(out_ptr + row * columns + column, x / tl.sum(x, axis=0), mask=column < columns)


def kernel(x, out):
    rows, columns = x.shape
    softmax[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
"""


@pytest.mark.slow(one_in=2)
def test_functions_that_triton_writes_in_triton_are_interpreted(tmp_path):
    (tmp_path / "kernel.py").write_text(SOFTMAX)
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [sys.executable, "-m", "evokernel.cli.main", "verify", "kernel.py", "--task", "starter/softmax", "--backend", "triton"]
    done = subprocess.run(
        [*command, "--set", "backend.device=never"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=HANG_S
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "✓ check" in done.stdout
