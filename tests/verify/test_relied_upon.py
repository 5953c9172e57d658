"""Kernels may rely on what a task's inputs always are, also while they are timed, and on tolerances that leave room for another build."""

import numpy as np
import pytest

from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import Array
from evokernel.core.records import Candidate, Job
from evokernel.tasks.loader import load
from evokernel.verify.case_factory import CaseFactory
from evokernel.verify.cases import changeable
from evokernel.verify.compare import Expected, Rule
from evokernel.verify.feedback import describe
from evokernel.verify.trial import Trial

needs_compiler = pytest.mark.skipif(make_plugin("backend", "cpp").missing() is not None, reason="no C++ compiler")
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
def test_a_triangle_stays_one_while_it_is_timed(compiled, other):
    outcome = compiled(TASK.format(a="torch.tril(x)", b=other), LOWER)
    assert outcome.feasible, outcome.failure


@pytest.mark.parametrize("name", STRUCTURED)
def test_elements_change_places_only_where_they_have_none(tmp_path, name):
    (tmp_path / "task.py").write_text(TASK.format(a=STRUCTURED[name], b=PLAIN))
    job = Job(backend="cpp", task=load(str(tmp_path / "task.py"))[0], candidate=Candidate(backend="cpp", files={}))
    with Trial(job, make_plugin("backend", "cpp"), tmp_path) as trial:
        assert changeable(trial.case("small", 0)) == [1]


def test_another_build_may_be_as_far_from_the_first_as_that_from_the_truth():
    want = np.ones(100, np.float32)
    expected = Expected(Array("out", "float32", want), Rule(1e-4, 1e-4))
    right, beyond, wrong = (want * np.float32(1 + 1e-4 * times) for times in (1.9, 2.1, 4.1))
    assert expected.difference(right) is None
    assert expected.difference(beyond) is not None
    assert expected.is_near(beyond, right)
    assert not expected.is_near(wrong, right)
    assert not expected.is_near(want * np.float32("nan"), right)
    assert not expected.is_near(beyond, None), "there was no first"


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


def test_ties_of_a_quotient_may_go_either_way(tmp_path):
    """Of a / (m / 127) and a * (127 / m) neither is more right, and they do not round alike."""
    (tmp_path / "task.py").write_text(TIES)
    maker, others = CaseFactory(load(str(tmp_path / "task.py"))[0], "strict", 1), 0
    for seed in range(16):
        answer = maker.make("bench", "own", seed)
        a, expected = answer.inputs[0].data, answer.expected[0]
        got = np.rint(a * (np.float32(127) / np.abs(a).max())).astype(np.int8)
        others += int((got != expected.array.data).sum())
        assert expected.difference(got) is None
        got[5] += 1
        assert expected.difference(got) is not None
    assert others, "there was no tie"


@pytest.mark.parametrize(("factor", "words"), [(1.001, "nearly right"), (2.0, "everything is wrong")])
def test_what_lacks_digits_is_told_from_what_is_wrong(factor, words):
    want = np.random.default_rng(1).standard_normal((40, 50)).astype(np.float32)
    difference = Expected(Array("out", "float32", want), Rule(1e-4, 1e-4)).difference(want * np.float32(factor))
    assert words in describe(difference, "small", "x [40, 50]")


def test_a_share_is_never_none():
    want = np.ones((100, 100), np.float32)
    got = want.copy()
    got[7, 7] = 5
    found = describe(Expected(Array("out", "float32", want), Rule(1e-4, 1e-4)).difference(got), "odd", "")
    assert "less than 0.1% wrong" in found
