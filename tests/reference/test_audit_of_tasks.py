"""What is wrong with a task is found, and nothing is found wrong with a sound one."""

from __future__ import annotations

import pytest
import torch

from evokernel.experiments.task_lint import flaws_of
from evokernel.reference.degenerate_solutions import PAPER, Tolerance, passes, span
from evokernel.reference.describe import describe
from evokernel.reference.shrink import narrowed
from evokernel.reference.task_lint import audit

HEAD = "import torch\nimport torch.nn as nn\nROWS, COLS = 32, 48\n"


def task(forward: str, init: str = "pass", inputs: str = "torch.randn(ROWS, COLS)", arguments: str = "x") -> str:
    return (
        f"{HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n"
        f"    def forward(self, {arguments}):\n        {forward}\ndef get_inputs():\n    return [{inputs}]\n"
    )


def found(source: str, protocol: str = "strict") -> set[tuple[str, str]]:
    described = describe(source, "t.py").model_copy(update={"id": "t"})
    return {(f.kind, f.what) for f in audit(described, {}) if f.protocol in ("", protocol)}


@pytest.mark.parametrize(
    ("source", "kind", "what"),
    [
        (task("return torch.clamp(torch.minimum(x, x * 0), 0, 1)"), "vacuous", "zeros"),
        (task("return x * 0 + 3"), "vacuous", "a constant"),
        (task("return self.w.sin() + 0 * x", "self.w = nn.Parameter(torch.randn(COLS))"), "vacuous", "a function of the parameters alone"),
        (task("return x * 1.0"), "vacuous", "a copy of x"),
        (task("return torch.relu(x)", inputs="torch.rand(ROWS, COLS)"), "vacuous", "a copy of x"),
        (task("return x.exp() + y * 0", inputs="torch.randn(ROWS), torch.randn(ROWS)", arguments="x, y"), "idle", "y"),
        (task("return x.cos() * self.g", "self.g = nn.Parameter(torch.ones(COLS))"), "untried", "g"),
        (task("return x + torch.rand_like(x)"), "random", "forward draws random numbers of its own"),
        (task("return torch.log(x - x)"), "non-finite", "outputs hold NaN or infinities"),
    ],
)
def test_what_is_wrong_is_found(source, kind, what):
    assert (kind, what) in found(source)


def test_a_sound_task_has_no_flaw():
    assert found(task("return x.cos() @ self.w", "self.w = nn.Parameter(torch.randn(COLS, 8))")) == set()
    assert found(task("return x.cos() @ self.w", "self.w = nn.Parameter(torch.randn(COLS, 8))"), "paper") == set()


@pytest.mark.parametrize(
    ("forward", "inputs"),
    [
        ("return nn.functional.binary_cross_entropy(x, y, reduction='none')", "torch.rand(ROWS, COLS), torch.rand(ROWS, COLS)"),
        ("return x.cos() * y", "torch.randn(ROWS, COLS), torch.randn(1, COLS).expand(ROWS, COLS)"),
    ],
)
def test_inputs_that_cannot_hold_just_anything_are_no_flaw(forward, inputs):
    assert found(task(forward, inputs=inputs, arguments="x, y")) == set()


def test_what_is_too_small_for_one_tolerance_is_sound_under_the_other():
    source = task("return torch.softmax(x, dim=1)", inputs="torch.rand(4, 20000)")
    assert ("vacuous", "zeros") in found(source, "paper")
    assert not any(kind == "vacuous" for kind, _ in found(source))
    level = task("return torch.sigmoid(x.mean(1, keepdim=True) + self.b)", "self.b = nn.Parameter(torch.randn(6))", "torch.rand(8, 90000)")
    assert ("vacuous", "a function of the parameters alone") in found(level, "paper")


def test_one_set_of_inputs_is_not_enough_to_call_a_single_number_a_constant():
    loss = task("return (x * 3).square().mean()", inputs="torch.randn(ROWS, COLS) * (1 + torch.rand(1))")
    assert found(loss) == found(loss, "paper") == set()


def test_spans_are_exact_for_integers_and_infinities():
    tolerance = Tolerance(1e-4, 1e-4)
    assert passes(torch.tensor([1, 2]), torch.tensor([1, 2]), tolerance)
    assert not passes(torch.tensor([1, 3]), torch.tensor([1, 2]), tolerance)
    wanted = torch.tensor([1.0, float("inf"), float("nan")])
    assert passes(wanted.clone(), wanted, tolerance)
    assert not passes(torch.tensor([1.0, 7.0, float("nan")]), wanted, PAPER)
    assert not span(wanted, tolerance).holds(1.0)
    assert span(torch.full((3,), 5e-3), PAPER).holds(0.0)


def test_fewer_rows_leave_what_a_number_is_made_of():
    source = task("return torch.softmax(x @ self.w, dim=1)", "self.w = nn.Parameter(torch.randn(COLS, 3000))").replace(
        "32, 48", "9_000_000, 7"
    )
    fewer = narrowed(source, "t.py")
    assert fewer is not None
    assert set(fewer) == {"ROWS"}
    assert 1 < fewer["ROWS"] < 9_000_000
    assert narrowed(task("return x.exp()"), "t.py") == {}
    assert narrowed(task("return x @ x.T").replace("32, 48", "200_000, 7"), "t.py") is None  # every number of rows changes both axes


def test_rows_that_are_added_up_are_left_out_only_on_request():
    loss = task("return (x * x).mean()").replace("32, 48", "9_000_000, 70")
    assert narrowed(loss, "t.py") is None
    assert set(narrowed(loss, "t.py", sums=True)) == {"ROWS"}
    inner = task("return x.T @ y", inputs="torch.randn(ROWS, 8192), torch.randn(ROWS, 4096)", arguments="x, y").replace("32,", "8192,")
    assert narrowed(inner, "t.py") is None
    assert set(narrowed(inner, "t.py", sums=True)) == {"ROWS"}


def test_what_is_sound_with_shorter_sums_is_not_known_to_be_sound():
    mean = task("return (x * x).mean()", inputs="torch.rand(ROWS, COLS)").replace("32, 48", "9_000_000, 70")
    described = describe(mean, "t.py").model_copy(update={"id": "t"})
    bench = {(flaw.kind, flaw.protocol) for flaw in flaws_of(described) if flaw.size == "bench"}
    assert ("vacuous", "paper") in bench
    assert ("unlooked", "paper") not in bench
    assert ("unlooked", "strict") in bench or ("vacuous", "strict") in bench
