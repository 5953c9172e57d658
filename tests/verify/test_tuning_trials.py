"""Tunables with real toolchains: the verifier's part of a trial, and a complete tuning of a kernel by measurement and by estimate."""

from concurrent.futures import Future

import pytest
from verifier_helpers import needs_compiler

from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Context, Job, Stage
from evokernel.core.state import State
from evokernel.core.tunables import read_tunables
from evokernel.engine.tuning import verify_and_tune
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify
from evokernel.verifier.evaluators import open_trial

pytestmark = pytest.mark.toolchain

HEAD = """
constexpr int64_t REPEATS = 8;  // tune: REPEATS = 1 | 4 | 8
"""
KERNEL = """
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    for (int64_t repeat = 0; repeat < REPEATS; ++repeat)
        for (int64_t i = 0; i < x_shape[0]; ++i) ((volatile float*)out)[i] = 2 * x[i];
}
"""


class DirectExecutor:
    """Verifies in this process."""

    def submit(self, job):
        future = Future()
        future.set_result(verify(job))
        return future


def make_job(task, text, backend="cpp", file="kernel.cpp", **settings):
    return Job(backend=backend, task=task, candidate=Candidate(backend=backend, files={file: text}), **{"timing_s": 0.1, **settings})


@needs_compiler
@pytest.mark.slow(one_in=5)
def test_cpp_kernel_is_tuned_and_verified(doubling):
    kernel = verify_and_tune(DirectExecutor(), make_job(doubling, HEAD + KERNEL, tuning_trials=10, protocol="paper"))
    tuning = kernel.outcome.tuning
    assert kernel.outcome.feasible
    assert tuning.chosen == {"REPEATS": 1}
    assert tuning.gain > 2
    assert "REPEATS = 1;" in kernel.candidate.code
    assert [trial.stage for trial in tuning.trials] == ["search", "search", "confirm", "verify"]
    assert {gate.gate for gate in kernel.outcome.gates} >= {"screen", "build", "check", "time"}


@needs_compiler
@pytest.mark.slow(one_in=5)
def test_cpp_setting_that_is_wrong_elsewhere_does_not_win(doubling):
    """With 1 the kernel is fastest, and correct only at the timed size: the trial passes, the verification refuses it."""
    text = HEAD + KERNEL.replace("2 * x[i]", "(REPEATS == 1 && x_shape[0] != 4096 ? 3 : 2) * x[i]")
    kernel = verify_and_tune(DirectExecutor(), make_job(doubling, text, tuning_trials=10, protocol="paper"))
    assert kernel.outcome.tuning.chosen == {"REPEATS": 4}
    verified = [trial for trial in kernel.outcome.tuning.trials if trial.stage == "verify"]
    assert [(trial.setting["REPEATS"], trial.reason) for trial in verified] == [(1, "mismatch"), (4, "")]


def test_malformed_declaration_fails_at_the_screen_only_if_tuning_is_on(doubling):
    text = "# tune: ROWS = 8 or 16\nROWS = 8\ndef kernel(a):\n    a.outputs[0].data[...] = 2 * a.inputs[0].data\n"
    job = make_job(doubling, text, "estimating_backend:EstimatingBackend", "kernel.py")
    failure = verify(job.model_copy(update={"tuning_trials": 5})).failure
    assert (failure.gate, failure.reason) == ("screen", "tunable")
    assert failure.detail.startswith("kernel.py:1: `# tune: ROWS = 8 or 16`: write the constant's name")
    assert verify(job).feasible


def test_a_trial_meets_no_hidden_size(doubling, tmp_path):
    for backend in ("estimating_backend:EstimatingBackend", "traced_backend:Traced"):
        job = make_job(doubling, "x = 1\n", backend, "kernel.py", purpose="tuning")
        with open_trial(job, make_plugin("backend", backend), tmp_path) as trial:
            assert set(trial.sizes) <= {"bench"}
            assert set(trial.make_call_shapes()) == {"bench"}


def test_hostile_values_are_tried_in_the_sandbox(doubling):
    """A tunable that chooses a crash or an endless loop costs only its trial."""
    text = (
        "import os\nMODE = 0  # tune: MODE = 0 | 1 | 2\ndef kernel(a):\n    if MODE == 1:\n        os._exit(0)\n"
        "    if MODE == 2:\n        raise SystemExit\n    a.outputs[0].data[...] = 2 * a.inputs[0].data\n"
    )
    kernel = verify_and_tune(
        DirectExecutor(), make_job(doubling, text, "estimating_backend:EstimatingBackend", "kernel.py", tuning_trials=5)
    )
    assert kernel.outcome.tuning.chosen == {"MODE": 0}
    assert all(trial.reason for trial in kernel.outcome.tuning.trials)
    assert len(kernel.outcome.tuning.trials) == 2


@pytest.mark.slow(one_in=5)
def test_template_search_kernel_is_tuned_by_estimate():
    backend = "pallas"
    if make_plugin("backend", backend).unavailable_reason():
        pytest.skip("pallas is not available")
    task = load_tasks("starter/gelu")[0]
    generator = make_plugin("generator", "template_search", backend=backend, seed=1, tuning_trials=3)
    for round in range(12):
        candidate = generator.write(State(task=task, round=round), Context(stage=Stage.DRAFT)).candidate
        if not read_tunables(candidate.files).tunables:
            continue
        job = Job(backend=backend, task=task, candidate=candidate, tuning_trials=3, seed=round)
        kernel = verify_and_tune(DirectExecutor(), job)
        if kernel.outcome.feasible:
            break
        generator.seed += 1
    tuning = kernel.outcome.tuning
    assert tuning.clock.startswith("estimate")
    assert len([trial for trial in tuning.trials if trial.stage == "search"]) == 3
    assert kernel.outcome.latency_us <= tuning.default_us
    assert read_tunables(kernel.candidate.files).default == tuning.chosen
    again = verify_and_tune(DirectExecutor(), job).outcome.tuning
    assert again.trials == tuning.trials, "estimates and seed decide the trials"
