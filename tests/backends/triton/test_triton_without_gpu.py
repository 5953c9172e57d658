"""Without a GPU, `evokernel verify` in a fresh process with a clean environment decides about kernels by interpreting them."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

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


LAUNCHES = {
    "own_elements": ("ok", "1.00000 1.06452"),
    "same_value": ("ok", "0.00000"),
    "other_value": ("race", "program 1 writes another value to an element that another program writes: element 0 of `out`"),
    "reads_written": ("race", "program 1 reads an element that another program writes"),
    "writes_read": ("race", "program 1 writes an element that another program reads: element 1"),
    "zeroes_sum": ("race", "changes by an atomic an element that another program writes with tl.store"),
    "reads_sum": ("race", "in the same launch"),
    "counts": ("ok", "2.00000"),
    "last_reads": ("ok", "2.00000 6.00000"),
    "last_reads_relaxed": ("race", "reads an element that another program writes"),
    "lanes_collide": ("race", "in one tl.store"),
    "past_the_end": ("out_of_bounds", "program 1 reads an element past the end of `x`"),
    "before_the_start": ("out_of_bounds", "program 0 writes up to 3 elements before the start of `out`"),
    "masked_past_the_end": ("ok", "0.00000 -0.93548"),
    "branching_reduction": ("ok", "-0.03226 8.25807"),
    "extern_functions": ("ok", "7.23841 7.26686"),
    "extern_unknown": ("not_run", "libdevice.j0; verify it with a GPU"),
    "product_default": ("ok", "1.00000"),
    "fails": ("raised", "ValueError: Shape element 0 must be a power of 2"),
}
"""What small launches end with, by the name of their kernel in `interpreted_launches.py`. `product_default` is 1.0001 without TF32."""


def test_launches_are_checked_for_races_bounds_and_support():
    script = Path(__file__).parent / "interpreted_launches.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = {name: (reason, detail) for name, reason, detail in (line.split(" ", 2) for line in done.stdout.splitlines())}
    assert {name: reason for name, (reason, _) in lines.items()} == {name: reason for name, (reason, _) in LAUNCHES.items()}
    assert [name for name, (_, words) in LAUNCHES.items() if words not in lines[name][1]] == []
    failures = {name: detail for name, (reason, detail) in lines.items() if reason != "ok"}
    assert [name for name, detail in failures.items() if not detail.startswith("line ")] == [], "every failure names its line"
