"""Hand-written kernels for five backward passes, on each backend that runs without a device."""

from pathlib import Path

import pytest
from sampling import one_in

from evokernel.core.backend import Backend
from evokernel.core.plugins import find_plugin
from evokernel.core.records import Candidate, Job
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify

KERNELS = Path(__file__).parent / "gradient_kernels"
SUFFIXES = {"cpp": "cpp", "pallas": "py", "ascendc": "asc"}
TASKS = {
    "tanh": "gradients/tanh",
    "softmax": "gradients/softmax",
    "rmsnorm": "starter/rmsnorm:backward",
    "matmul": "starter/matmul:backward",
    "mean_squared_error": "gradients/mean_squared_error",
}
MISSING_TERMS = {
    "tanh": (" * 4.0f", ""),
    "softmax": ("(grad[i] - mean)", "grad[i]"),
    "rmsnorm": (" - in[i] * share", ""),
    "matmul": ("grad_b[i * n + j] += factor * grad_out[row * n + j]", "grad_b[i * n + j] = factor * grad_out[row * n + j]"),
    "mean_squared_error": ("grad_targets[i] = -gradient", "grad_targets[i] = 0"),
}


def verify_file(backend, name, old="", new=""):
    plugin = find_plugin("backend", backend)
    reason = plugin().unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    text = (KERNELS / backend / f"{name}.{SUFFIXES[backend]}").read_text()
    assert old in text
    assert issubclass(plugin, Backend)
    (task,) = load_tasks(TASKS[name])
    candidate = Candidate(backend=backend, files={plugin.file_name: text.replace(old, new) if old else text})
    return verify(Job(backend=backend, task=task, candidate=candidate))


def test_each_backend_has_a_kernel_for_each_operator():
    assert {path.relative_to(KERNELS).as_posix() for path in KERNELS.rglob("*.*")} == {
        f"{backend}/{name}.{suffix}" for backend, suffix in SUFFIXES.items() for name in TASKS
    }


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize(("backend", "name"), one_in(5, [(backend, name) for backend in SUFFIXES for name in TASKS]))
def test_kernel_passes_every_gate(backend, name):
    outcome = verify_file(backend, name)
    assert outcome.feasible, outcome
    assert outcome.latency_us is not None


@pytest.mark.parametrize("name", one_in(3, TASKS))
def test_gradient_without_a_term_is_refused(name):
    outcome = verify_file("cpp", name, *MISSING_TERMS[name])
    assert not outcome.feasible
    assert outcome.failure is not None
    assert (outcome.failure.gate, outcome.failure.reason) == ("check", "mismatch")
