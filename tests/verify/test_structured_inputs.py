"""Kernels may rely on the structure of a task's inputs while timed, and tolerances leave room for another build."""

import numpy as np
import pytest

from evokernel.core.backend import Array
from evokernel.core.numeric_contract import ToleranceRule
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Job
from evokernel.suites.loader import load_tasks
from evokernel.verifier.cases import CaseFactory, find_changeable_inputs
from evokernel.verifier.compare import ExpectedOutput
from evokernel.verifier.evaluators import open_trial
from evokernel.verifier.feedback import describe_difference

needs_compiler = pytest.mark.skipif(make_plugin("backend", "cpp").unavailable_reason() is not None, reason="no C++ compiler")
TASK = """
import torch
from torch import nn
N = 96
class Model(nn.Module):
    def forward(self, a, b):
        return a @ b
def get_inputs():
    x = torch.randn(N, N)
    return [{a}, {b}]
"""
LOWER = """
extern "C" void kernel(const float* a, const int64_t* a_shape, const float* b, const int64_t* b_shape, float* out, const int64_t*) {
    const int64_t n = a_shape[0];
    for (int64_t i = 0; i < n; ++i) {
        std::fill(out + i * n, out + (i + 1) * n, 0.0f);
        for (int64_t k = 0; k <= i; ++k)
            for (int64_t j = 0; j < n; ++j) out[i * n + j] += a[i * n + k] * b[k * n + j];
    }
}
"""
PLAIN = "torch.randn(N, N)"
STRUCTURED = {
    "a triangle": "torch.tril(x)",
    "a symmetric matrix": "x + x.T",
    "probabilities": "torch.softmax(x, 1)",
    "a mask": "(x > 0).float()",
    "sorted rows": "x.sort(1).values",
}


@needs_compiler
@pytest.mark.parametrize("other", [PLAIN, "torch.tril(torch.randn(N, N))"])
def test_triangular_input_stays_triangular_while_timed(compiled, other):
    outcome = compiled(TASK.format(a="torch.tril(x)", b=other), LOWER)
    assert outcome.feasible, outcome.failure


@pytest.mark.parametrize("name", STRUCTURED)
def test_only_unstructured_inputs_are_changeable(tmp_path, name):
    (tmp_path / "task.py").write_text(TASK.format(a=STRUCTURED[name], b=PLAIN))
    job = Job(backend="cpp", task=load_tasks(str(tmp_path / "task.py"))[0], candidate=Candidate(backend="cpp", files={}))
    with open_trial(job, make_plugin("backend", "cpp"), tmp_path) as trial:
        assert find_changeable_inputs(trial.get_case("small", 0)) == [1]


def test_second_build_may_differ_from_the_first_within_tolerance():
    target = np.ones(100, np.float32)
    expected = ExpectedOutput(Array("out", "float32", target), ToleranceRule(1e-4, 1e-4))
    correct, outside, wrong = (target * np.float32(1 + 1e-4 * times) for times in (1.9, 2.1, 4.1))
    assert expected.find_difference(correct) is None
    assert expected.find_difference(outside) is not None
    assert expected.is_close_to_earlier(outside, correct)
    assert not expected.is_close_to_earlier(wrong, correct)
    assert not expected.is_close_to_earlier(target * np.float32("nan"), correct)
    assert not expected.is_close_to_earlier(outside, None), "there are no earlier results"


TIES = """
import torch
from torch import nn
N = 4096
class Model(nn.Module):
    def forward(self, a):
        return torch.round(a / (a.abs().amax() / 127)).to(torch.int8)
def get_inputs():
    a = torch.randn(N)
    a[100:200] = (torch.arange(100) + 0.5) * (a.abs().max() / 127)
    return [a]
"""


def test_ties_of_a_quotient_may_round_either_way(tmp_path):
    """Neither a / (m / 127) nor a * (127 / m) is more correct, and they round differently."""
    (tmp_path / "task.py").write_text(TIES)
    factory, tie_count = CaseFactory(load_tasks(str(tmp_path / "task.py"))[0], "strict", 1), 0
    for seed in range(16):
        case = factory.draw_case("bench", "own", seed)
        a, expected = case.inputs[0].data, case.expected[0]
        actual = np.rint(a * (np.float32(127) / np.abs(a).max())).astype(np.int8)
        tie_count += int((actual != expected.array.data).sum())
        assert expected.find_difference(actual) is None
        actual[5] += 1
        assert expected.find_difference(actual) is not None
    assert tie_count, "there was no tie"


@pytest.mark.parametrize(("factor", "message"), [(1.001, "nearly correct"), (2.0, "every element is wrong")])
def test_feedback_distinguishes_low_precision_from_wrong_values(factor, message):
    target = np.random.default_rng(1).standard_normal((40, 50)).astype(np.float32)
    difference = ExpectedOutput(Array("out", "float32", target), ToleranceRule(1e-4, 1e-4)).find_difference(target * np.float32(factor))
    assert message in describe_difference(difference, "small", "x [40, 50]")


def test_percentage_is_never_shown_as_zero():
    target = np.ones((100, 100), np.float32)
    actual = target.copy()
    actual[7, 7] = 5
    text = describe_difference(
        ExpectedOutput(Array("out", "float32", target), ToleranceRule(1e-4, 1e-4)).find_difference(actual), "odd", ""
    )
    assert "less than 0.1% of the elements" in text
