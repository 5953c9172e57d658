"""Task lint finds the problems of a task, and none in a sound task."""

from __future__ import annotations

import pytest
import torch

from evokernel.reference.degenerate_solutions import PAPER_TOLERANCE, Tolerance, accepted_range, is_within_tolerance
from evokernel.reference.describe import describe_task
from evokernel.reference.shrink import shrink_to_fit
from evokernel.suites.lint_checks import lint_task
from evokernel.suites.lint_workers import find_issues

HEAD = "import torch\nimport torch.nn as nn\nROWS, COLS = 32, 48\n"


def task_source(forward: str, init: str = "pass", inputs: str = "torch.randn(ROWS, COLS)", arguments: str = "x") -> str:
    return (
        f"{HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n"
        f"    def forward(self, {arguments}):\n        {forward}\ndef get_inputs():\n    return [{inputs}]\n"
    )


def find_problems(source: str, protocol: str = "strict") -> set[tuple[str, str]]:
    task = describe_task(source, "t.py").model_copy(update={"id": "t"})
    return {(f.kind, f.description) for f in lint_task(task, {}) if f.protocol in ("", protocol)}


@pytest.mark.parametrize(
    ("source", "kind", "description"),
    [
        (task_source("return torch.clamp(torch.minimum(x, x * 0), 0, 1)"), "vacuous", "zeros"),
        (task_source("return x * 0 + 3"), "vacuous", "a constant"),
        (
            task_source("return self.w.sin() + 0 * x", "self.w = nn.Parameter(torch.randn(COLS))"),
            "vacuous",
            "a function of the parameters alone",
        ),
        (task_source("return x * 1.0"), "vacuous", "a copy of x"),
        (task_source("return torch.relu(x)", inputs="torch.rand(ROWS, COLS)"), "vacuous", "a copy of x"),
        (task_source("return x.exp() + y * 0", inputs="torch.randn(ROWS), torch.randn(ROWS)", arguments="x, y"), "unused", "y"),
        (task_source("return x.cos() * self.g", "self.g = nn.Parameter(torch.ones(COLS))"), "constant-parameter", "g"),
        (task_source("return x + torch.rand_like(x)"), "random", "forward draws random numbers"),
        (task_source("return torch.log(x - x)"), "non-finite", "outputs contain NaN or infinities"),
    ],
)
def test_problem_is_found(source, kind, description):
    assert (kind, description) in find_problems(source)


def test_sound_task_has_no_problem():
    assert find_problems(task_source("return x.cos() @ self.w", "self.w = nn.Parameter(torch.randn(COLS, 8))")) == set()
    assert find_problems(task_source("return x.cos() @ self.w", "self.w = nn.Parameter(torch.randn(COLS, 8))"), "paper") == set()


@pytest.mark.parametrize(
    ("forward", "inputs"),
    [
        ("return nn.functional.binary_cross_entropy(x, y, reduction='none')", "torch.rand(ROWS, COLS), torch.rand(ROWS, COLS)"),
        ("return x.cos() * y", "torch.randn(ROWS, COLS), torch.randn(1, COLS).expand(ROWS, COLS)"),
    ],
)
def test_restricted_inputs_are_not_a_problem(forward, inputs):
    assert find_problems(task_source(forward, inputs=inputs, arguments="x, y")) == set()


def test_vacuous_under_the_paper_tolerance_only():
    source = task_source("return torch.softmax(x, dim=1)", inputs="torch.rand(4, 20000)")
    assert ("vacuous", "zeros") in find_problems(source, "paper")
    assert not any(kind == "vacuous" for kind, _ in find_problems(source))
    level = task_source(
        "return torch.sigmoid(x.mean(1, keepdim=True) + self.b)", "self.b = nn.Parameter(torch.randn(6))", "torch.rand(8, 90000)"
    )
    assert ("vacuous", "a function of the parameters alone") in find_problems(level, "paper")


def test_scalar_loss_is_not_a_constant():
    loss = task_source("return (x * 3).square().mean()", inputs="torch.randn(ROWS, COLS) * (1 + torch.rand(1))")
    assert find_problems(loss) == find_problems(loss, "paper") == set()


def test_accepted_range_is_exact_for_integers_and_infinities():
    tolerance = Tolerance(1e-4, 1e-4)
    assert is_within_tolerance(torch.tensor([1, 2]), torch.tensor([1, 2]), tolerance)
    assert not is_within_tolerance(torch.tensor([1, 3]), torch.tensor([1, 2]), tolerance)
    expected = torch.tensor([1.0, float("inf"), float("nan")])
    assert is_within_tolerance(expected.clone(), expected, tolerance)
    assert not is_within_tolerance(torch.tensor([1.0, 7.0, float("nan")]), expected, PAPER_TOLERANCE)
    assert not accepted_range(expected, tolerance).accepts_everywhere(1.0)
    assert accepted_range(torch.full((3,), 5e-3), PAPER_TOLERANCE).accepts_everywhere(0.0)


def test_shrinking_reduces_rows_only():
    source = task_source("return torch.softmax(x @ self.w, dim=1)", "self.w = nn.Parameter(torch.randn(COLS, 3000))").replace(
        "32, 48", "9_000_000, 7"
    )
    overrides = shrink_to_fit(source, "t.py")
    assert overrides is not None
    assert set(overrides) == {"ROWS"}
    assert 1 < overrides["ROWS"] < 9_000_000
    assert shrink_to_fit(task_source("return x.exp()"), "t.py") == {}
    assert (
        shrink_to_fit(task_source("return x @ x.T").replace("32, 48", "200_000, 7"), "t.py") is None
    )  # the number of rows changes both axes


def test_summed_rows_shrink_only_on_request():
    loss = task_source("return (x * x).mean()").replace("32, 48", "9_000_000, 70")
    assert shrink_to_fit(loss, "t.py") is None
    assert set(shrink_to_fit(loss, "t.py", allow_summed_rows=True)) == {"ROWS"}
    inner = task_source("return x.T @ y", inputs="torch.randn(ROWS, 8192), torch.randn(ROWS, 4096)", arguments="x, y").replace(
        "32,", "8192,"
    )
    assert shrink_to_fit(inner, "t.py") is None
    assert set(shrink_to_fit(inner, "t.py", allow_summed_rows=True)) == {"ROWS"}


def test_shorter_sums_leave_soundness_unknown():
    mean = task_source("return (x * x).mean()", inputs="torch.rand(ROWS, COLS)").replace("32, 48", "9_000_000, 70")
    task = describe_task(mean, "t.py").model_copy(update={"id": "t"})
    bench = {(flaw.kind, flaw.protocol) for flaw in find_issues(task) if flaw.size == "bench"}
    assert ("vacuous", "paper") in bench
    assert ("unchecked", "paper") not in bench
    assert ("unchecked", "strict") in bench or ("vacuous", "strict") in bench
