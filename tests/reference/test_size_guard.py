"""Small references run before their shapes are known; large operators, and those of unknown size, are refused before they run."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from evokernel.reference.measure import measure_if_small, measure_size, run_and_measure
from evokernel.reference.size_guard import SizeGuard, SizeLimitExceeded

TASK = """
import torch

ROWS, COLUMNS = {rows}, 64


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(COLUMNS, 32)

    def forward(self, x):
        y = torch.nn.functional.layer_norm({call}, (32,))
        return torch.softmax(y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True)), -1).cumsum(-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""
SMALL = TASK.format(rows=48, call="self.layer(x)")


def test_a_small_task_is_measured_as_without_the_guard():
    assert measure_if_small(SMALL, "task.py", {}) == run_and_measure(SMALL, "task.py", {}, with_values=True)


def test_a_small_task_is_described_without_the_compiler_of_torch(tmp_path):
    (tmp_path / "task.py").write_text(SMALL)
    code = (
        "import sys\nfrom evokernel.reference.describe import describe_task\n"
        "task = describe_task(open(sys.argv[1]).read(), 'task.py')\n"
        "print(task.signature.outputs[0].shape, [name for name in ('sympy', 'torch._dynamo') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "task.py")], capture_output=True, text=True, check=True)
    assert done.stdout == "(48, 32) []\n"


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.empty(1 << 30, 1 << 30),
        lambda x: x[:, None] * x,
        lambda x: torch.outer(x, x),
        lambda x: x[:, None] @ x[None],
        lambda x: torch.baddbmm(x[:1], x[None, :, None], x[None, None]),
        lambda x: x.repeat(1 << 20),
    ],
)
def test_a_large_operator_is_refused_before_it_runs(call):
    x = torch.ones(1 << 16)
    guard = SizeGuard()
    with guard, pytest.raises(SizeLimitExceeded):
        call(x)
    assert guard.is_exceeded


def test_many_operators_are_large_together():
    parts = [torch.ones(1 << 22) for _ in range(5)]
    with SizeGuard(), pytest.raises(SizeLimitExceeded):
        [part + 1 for part in parts]


def test_a_large_task_is_measured_from_its_shapes():
    large = TASK.format(rows=1 << 40, call="self.layer(x)")
    assert measure_if_small(large, "task.py", {}) is None
    assert measure_size(large, "task.py", {}).finite is None


def test_a_reference_that_catches_the_refusal_is_not_small():
    attempt = "\n        try: torch.empty(1 << 60)\n        except Exception: pass"
    catching = SMALL.replace("def forward(self, x):", f"def forward(self, x):{attempt}")
    assert measure_if_small(catching, "task.py", {}) is None


def test_an_operator_of_unknown_size_runs_once_its_shapes_are_known():
    gathering = TASK.format(rows=48, call="self.layer(x).index_select(0, torch.zeros(8, dtype=torch.long))")
    assert measure_if_small(gathering, "task.py", {}) is None
    assert measure_size(gathering, "task.py", {}) == run_and_measure(gathering, "task.py", {}, with_values=True)
