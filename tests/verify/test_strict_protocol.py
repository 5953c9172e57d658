"""The strict protocol refuses kernels that are correct only for the inputs a task happens to draw, and passes honest ones.

Kernels use numpy, so that hundreds of runs take seconds.
"""

import pytest
from sampling import one_in

from evokernel.core.records import Candidate, Job
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nA = 48\nB = 80\n"
KERNEL = "import numpy as np\nf = np.float32\ndef kernel(a):\n    x, *p = [t.data for t in a.inputs]\n    out = a.outputs[0].data\n"


def task_text(body, inputs="torch.randn(A, B)", made="", more=""):
    model = f"class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {made or 'pass'}\n"
    names = "x, y" if " y" in body or "y *" in body else "x"
    return f"{HEAD}{more}\n{model}    def forward(self, {names}):\n        return {body}\ndef get_inputs():\n    return [{inputs}]\n"


@pytest.fixture
def verify_kernel(tmp_path):
    def verify_text(task, kernel, **job):
        path = tmp_path / "task.py"
        path.write_text(task)
        files = {"kernel.py": KERNEL + "".join(f"    {line}\n" for line in kernel.split("\n"))}
        candidate = Candidate(backend="hostile_backend:Hostile", files=files)
        return verify(Job(backend=candidate.backend, task=load_tasks(str(path))[0], candidate=candidate, **({"clock": "synthetic"} | job)))

    return verify_text


def get_check_failure(outcome):
    assert outcome.failure is not None, "the kernel passed"
    assert outcome.failure.gate == "check", outcome.failure
    return outcome.failure


SOFTMAX = task_text("torch.softmax(x, dim=1)")
NORM = task_text("self.norm(x)", made="self.norm = nn.LayerNorm(B)")
RELU = task_text("F.relu(x)", inputs="torch.rand(A, B)")
MEAN = "m = x.mean(1, keepdims=True, dtype=f)"
WEIGHTS = "* p[0] + p[1]"
WRONG_KERNELS = {
    "the input for a relu of positive numbers": (RELU, "out[...] = x"),
    "weights that are one are left out": (
        NORM,
        f"{MEAN}\nv = ((x - m) ** 2).mean(1, keepdims=True)\nout[...] = (x - m) / np.sqrt(v + f(1e-5))",
    ),
    "epsilon left out": (NORM, f"{MEAN}\nv = ((x - m) ** 2).mean(1, keepdims=True)\nout[...] = (x - m) / np.sqrt(v) {WEIGHTS}"),
    "mean of squares": (NORM, f"{MEAN}\nv = (x * x).mean(1, keepdims=True) - m * m\nout[...] = (x - m) / np.sqrt(v + f(1e-5)) {WEIGHTS}"),
    "exponentials of large numbers": (SOFTMAX, "e = np.exp(x)\nout[...] = e / e.sum(1, keepdims=True)"),
    "an exponential of few terms": (
        SOFTMAX,
        "t = (x - x.max(1, keepdims=True)) / f(16)\ne = (1 + t * (1 + t / 2 * (1 + t / 3 * (1 + t / 4)))) ** 16\n"
        "out[...] = e / e.sum(1, keepdims=True)",
    ),
    "bfloat16 inside": (
        task_text("x @ y", inputs="torch.randn(A, B), torch.randn(B, A)"),
        "h = lambda t: ((t.view(np.uint32) + 0x8000) & 0xFFFF0000).view(f)\nout[...] = h(x) @ h(p[0])",
    ),
    "eleven bits inside": (
        task_text("x @ y", inputs="torch.randn(A, B), torch.randn(B, A)"),
        "h = lambda t: ((t.view(np.uint32) + 0x1000) & 0xFFFFE000).view(f)\nout[...] = h(x) @ h(p[0])",
    ),
    "twenty bits of each result": (task_text("torch.exp(x)"), "out[...] = (np.exp(x).view(np.uint32) & 0xFFFFFE00).view(f)"),
    "one element of many": (task_text("torch.exp(x)"), "out[...] = np.exp(x)\nout[-1, -2] *= f(1.001)"),
}


@pytest.mark.parametrize("name", WRONG_KERNELS)
def test_kernel_correct_for_some_inputs_only_fails(verify_kernel, name):
    assert get_check_failure(verify_kernel(*WRONG_KERNELS[name])).reason in ("mismatch", "nan")


CORRECT_KERNELS = {
    "a relu": (RELU, "out[...] = np.maximum(x, 0)"),
    "a softmax": (SOFTMAX, "e = np.exp(x - x.max(1, keepdims=True))\nout[...] = e / e.sum(1, keepdims=True)"),
    "a softmax summed in order": (
        SOFTMAX,
        "e = np.exp(x - x.max(1, keepdims=True))\nout[...] = e * (f(1) / np.add.accumulate(e, axis=1, dtype=f)[:, -1:])",
    ),
    "a norm in two passes": (
        NORM,
        f"{MEAN}\nv = ((x - m) ** 2).mean(1, keepdims=True)\nout[...] = (x - m) / np.sqrt(v + f(1e-5)) {WEIGHTS}",
    ),
    "a norm summed in order": (
        NORM,
        "n = x.shape[1]\nm = np.add.accumulate(x, axis=1, dtype=f)[:, -1:] / n\n"
        f"v = np.add.accumulate((x - m) ** 2, axis=1, dtype=f)[:, -1:] / n\nout[...] = (x - m) * (f(1) / np.sqrt(v + f(1e-5))) {WEIGHTS}",
    ),
    "elu without expm1": (task_text("F.elu(x)"), "out[...] = np.where(x > 0, x, np.exp(np.minimum(x, 0)) - f(1))"),
    "logarithms, which have no signs": (task_text("torch.log(x)", inputs="torch.rand(A, B) + 0.1"), "out[...] = np.log(x)"),
    "a root": (task_text("torch.sqrt(x)", inputs="torch.rand(A, B)"), "out[...] = np.sqrt(x)"),
    "exponentials that overflow soon": (task_text("torch.exp(x)"), "out[...] = np.exp(x)"),
    "probabilities": (
        task_text("(y * (torch.log(y) - x)).sum(1)", inputs="torch.randn(A, B), torch.softmax(torch.randn(A, B), 1)"),
        "y = p[0]\nout[...] = (y * np.log(y)).sum(1) - (y * (x - 3)).sum(1) - 3",
    ),
    "a triangle": (
        task_text("x @ y", inputs="torch.tril(torch.randn(A, A)), torch.randn(A, B)"),
        "for i in range(x.shape[0]):\n    out[i] = x[i, : i + 1] @ p[0][: i + 1]",
    ),
    "a mask": (
        task_text("x * y", inputs="torch.randn(A, B), (torch.randn(A, B) > 0).float()"),
        "out[...] = np.where(p[0] == 1, x, np.where(p[0] == 0, f(0), f('nan')))",
    ),
    "a symmetric matrix": (
        task_text("x @ y", inputs="(lambda t: t + t.T)(torch.randn(A, A)), torch.randn(A, B)"),
        "out[...] = x.T @ p[0]",
    ),
    "running statistics": (
        task_text("self.norm(x)", made="self.norm = nn.BatchNorm1d(B)"),
        "w, b, m, v = p[:4]\nout[...] = (x - m) / np.sqrt(v + f(1e-5)) * w + b",
    ),
    "float64": (task_text("x.sum(1)", inputs="torch.randn(A, B).double()"), "out[...] = np.add.accumulate(x, axis=1)[:, -1]"),
    "an explicit float()": (
        task_text("(x.float() ** 2).mean(1).to(torch.bfloat16)", inputs="torch.randn(A, B).to(torch.bfloat16)"),
        "w = (x.astype(np.uint32) << 16).view(f)\nr = (w * w).mean(1).astype(f).view(np.uint32)\n"
        "out[...] = ((r + 0x7FFF + ((r >> 16) & 1)) >> 16)",
    ),
    "quanta, rounded by another way": (
        task_text("torch.clamp(torch.round(x / 0.05), -128, 127).to(torch.int8)"),
        "out[...] = np.clip(np.rint(x * f(20)), -128, 127)",
    ),
    "quanta kept as floats": (task_text("torch.round(x / 0.05) * 0.05"), "out[...] = np.rint(x * f(20)) * f(0.05)"),
    "a sigmoid by way of another function": (
        task_text("torch.sigmoid(x)", inputs="torch.randn(A, B) * 3"),
        "out[...] = np.tanh(x / 2) / 2 + f(0.5)",
    ),
    "the largest": (task_text("x.argmax(1)"), "out[...] = x.argmax(1)"),
    "counts": (
        task_text("(x.softmax(1) > 0.02).sum(1)"),
        "e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))\nout[...] = (e / e.sum(1, keepdims=True) > 0.02).sum(1)",
    ),
    "rows of a table": (
        task_text("self.t(x)", inputs="torch.randint(0, B, (A, 7))", made="self.t = nn.Embedding(B, 12)"),
        "out[...] = p[0][x]",
    ),
}


@pytest.mark.parametrize("name", one_in(3, CORRECT_KERNELS))
def test_honest_kernels_pass(verify_kernel, name):
    outcome = verify_kernel(*CORRECT_KERNELS[name])
    assert outcome.feasible, outcome.failure


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("quanta, rounded by another way", "out[...] = np.clip(np.rint(x * f(20)), -128, 127)\nout[0, 3] += 1"),
        ("quanta kept as floats", "out[...] = np.rint(x * f(20)) * f(0.05)\nout[0, 3] += f(0.05)"),
        ("the largest", "out[...] = (x + f(0.01) * (np.arange(x.shape[1]) == 5)).argmax(1)"),
    ],
)
def test_error_beyond_rounding_is_wrong(verify_kernel, name, kernel):
    assert get_check_failure(verify_kernel(CORRECT_KERNELS[name][0], kernel)).reason == "mismatch"


def test_kernel_for_known_sizes_fails_at_a_hidden_size(verify_kernel, tmp_path):
    text = task_text("torch.exp(x)")
    path = tmp_path / "look.py"
    path.write_text(text)
    sizes = load_tasks(str(path))[0].sizes
    known_shapes = [[size.get("A", 48), size.get("B", 80)] for size in sizes.values()]
    failure = get_check_failure(verify_kernel(text, f"out[...] = np.exp(x) if list(x.shape) in {known_shapes} else 0"))
    assert "a hidden size" in failure.detail


def test_remembering_inputs_by_some_elements_is_detected(verify_kernel):
    kernel = "key = (x.shape, x[0].tobytes(), x[-1].tobytes())\nout[...] = kernel.__dict__.setdefault(key, np.exp(x))"
    failure = get_check_failure(verify_kernel(task_text("torch.exp(x)"), kernel))
    assert failure.reason == "mismatch"
    assert "keep nothing between calls" in failure.detail


def test_reading_outside_an_input_has_its_own_reason(verify_kernel):
    beyond = "n = x.size\nmore = np.lib.stride_tricks.as_strided(x.reshape(-1), (n + 1,), (4,))\n"
    failure = get_check_failure(verify_kernel(task_text("torch.exp(x)"), beyond + "out[...] = np.exp(x)\nout[0, 0] += f(0) * more[n]"))
    assert failure.reason == "out_of_bounds"
    assert "reads outside its input tensors" in failure.detail
    failure = get_check_failure(
        verify_kernel(task_text("torch.exp(x)"), beyond + "out[...] = np.exp(x)\nout[0, 0] += f(1e-7) if more[n] > 5 else 0")
    )
    assert failure.reason == "out_of_bounds", "the result is close, but depends on bytes outside the input"


def test_nondeterministic_kernel_is_reported_as_such(verify_kernel):
    kernel = "out[...] = np.exp(x)\nkernel.calls = getattr(kernel, 'calls', 0) + 1\nout[0, 0] *= f(1 + 1e-7 * (kernel.calls % 2))"
    assert get_check_failure(verify_kernel(task_text("torch.exp(x)"), kernel)).reason == "nondeterministic"


def test_nonfinite_inputs_are_tested_if_the_task_asks(verify_kernel):
    careless = "out[...] = np.where(x > 0, x, 0)"
    assert verify_kernel(task_text("F.relu(x)"), careless).feasible
    failure = get_check_failure(verify_kernel(task_text("F.relu(x)", more="NONFINITE = True"), careless))
    assert "infinite or NaN" in failure.detail
    assert verify_kernel(task_text("F.relu(x)", more="NONFINITE = True"), "out[...] = np.maximum(x, 0)").feasible


def test_wider_tolerance_of_a_task_applies(verify_kernel):
    half = "out[...] = ((np.exp(x).view(np.uint32)) & 0xFFFF0000).view(f)"
    assert get_check_failure(verify_kernel(task_text("torch.exp(x)"), half)).reason == "mismatch"
    assert verify_kernel(task_text("torch.exp(x)", more="ATOL = RTOL = 1e-2"), half).feasible


def test_paper_protocol_is_looser_and_recorded(verify_kernel):
    half = "out[...] = ((np.exp(x).view(np.uint32)) & 0xFFFF0000).view(f)"
    outcome = verify_kernel(task_text("torch.exp(x)"), half, protocol="paper")
    assert outcome.feasible, outcome.failure
    assert outcome.protocol == "paper"
    assert get_check_failure(verify_kernel(task_text("torch.exp(x)"), "out[1:] = np.exp(x)[1:]", protocol="paper")).reason == "unwritten"


def test_missing_float64_reference_is_reported(verify_kernel):
    text = task_text("x + (1.0 if x.dtype == torch.float32 else float('nan'))")
    outcome = verify_kernel(text, "out[...] = x + 1")
    assert outcome.feasible, outcome.failure
    assert any("float64" in line for line in outcome.skipped_checks)


REACHING = """
import mmap
out[...] = np.exp(x)
for descriptor in range(3, 64):
    try:
        memory = mmap.mmap(descriptor, 0)
    except (OSError, ValueError):
        continue
    at = memory.find(x.tobytes())
    if at >= 0:
        memory[at : at + 4] = f(0.5).tobytes()
"""


def test_inputs_changed_through_shared_memory_are_reported(verify_kernel):
    failure = get_check_failure(verify_kernel(task_text("torch.exp(x)"), REACHING.strip()))
    assert failure.reason == "inputs"
    assert "`x`" in failure.detail


def test_kernel_that_would_become_the_best_is_tested_further(verify_kernel):
    """The kernel is correct for eleven calls at each size, which is all that the check gate makes."""
    tiring = "kernel.calls = getattr(kernel, 'calls', 0) + (x.shape == (24, 40))\nout[...] = np.exp(x) + f(kernel.calls > 11)"
    outcome = verify_kernel(task_text("torch.exp(x)"), tiring)
    assert (outcome.failure.gate, outcome.failure.reason) == ("time", "mismatch")
    assert verify_kernel(task_text("torch.exp(x)"), tiring, protocol="paper").feasible
