"""Backends that estimate latencies and simulate kernels in the candidate process."""

import sys

import pytest
from estimating_backend import EstimatingBackend
from time_limits import HANG_S
from traced_backend import Traced
from verifier_helpers import HONEST

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Job
from evokernel.sandbox import layers
from evokernel.verifier import incumbent, verify
from evokernel.verifier.evaluators import choose_evaluator
from evokernel.verifier.reasons import REASONS

BENCH = 4096


@pytest.fixture
def verify_estimated(doubling):
    def verify_text(text, timeout_s=HANG_S, task=doubling, **settings):
        candidate = Candidate(backend="estimating_backend:EstimatingBackend", files={"kernel.py": text})
        return verify(Job(backend=candidate.backend, settings=settings, task=task, candidate=candidate, timeout_s=timeout_s))

    return verify_text


def test_capabilities_choose_the_evaluator(doubling):
    def name_evaluator(backend, clock="auto"):
        job = Job(backend="any", task=doubling, candidate=Candidate(backend="any", files={}), clock=clock)
        return type(choose_evaluator(job, backend.capabilities)).__name__

    assert name_evaluator(make_plugin("backend", "cpp")) == "HostEvaluator"
    assert name_evaluator(EstimatingBackend()) == "EstimatedEvaluator"
    assert name_evaluator(make_plugin("backend", "pallas")) == "EstimatedEvaluator"
    assert name_evaluator(Traced(), clock="synthetic") == "SyntheticEvaluator"


def test_estimate_comes_from_the_stderr_of_the_process(verify_estimated):
    incumbent.BUILD_CACHE.clear()
    outcome = verify_estimated(HONEST)
    assert outcome.feasible, outcome.failure
    assert (outcome.clock, outcome.latency_us, outcome.speedup) == ("estimate (a line)", BENCH / 100, 3.0)
    assert not incumbent.BUILD_CACHE, "no incumbent is timed, so no build is cached"
    assert not [line for line in outcome.skipped_checks if "estimate alone" in line]


@pytest.mark.skipif(sys.platform != "linux" or "landlock" not in layers.get_active_layers(), reason="needs Landlock")
def test_candidate_code_runs_in_a_read_only_sandbox(verify_estimated):
    assert verify_estimated(HONEST).profile.summary.endswith("runs, in a sandbox")


def test_flooded_stderr_keeps_its_end(verify_estimated):
    outcome = verify_estimated(HONEST + "    sys.stderr.write('x' * (1 << 20) + '\\n')\n")
    assert outcome.feasible, outcome.failure
    assert outcome.latency_us == BENCH / 100


def test_backend_chooses_the_sizes(verify_estimated):
    odd_alone = HONEST + "    if a.inputs[0].data.size not in (4096, 2048):\n        a.outputs[0].data[...] = 0\n"
    assert verify_estimated(odd_alone).failure.gate == "check"
    assert verify_estimated("# small\n" + odd_alone).failure.gate == "time", "confirmation sizes are for kernels that would become the best"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def kernel(a):\n    raise CandidateError('queue', 'E-QUE-EMPTY')\n", "queue"),
        ("def kernel(a):\n    raise ValueError('no')\n", "raised"),
        ("def kernel(a):\n    os._exit(3)\n", "exit"),
        ("raise ValueError('while loading')\n", "raised"),
    ],
)
def test_backend_explains_a_failed_run(verify_estimated, text, reason):
    failure = verify_estimated(text).failure
    assert (failure.gate, failure.reason) == ("check", reason)
    first, *rest = failure.detail.splitlines()
    assert first.startswith("explained: ")
    assert rest == ["rule: none", "hint: none"]
    assert ("at size small" in first) == ("loading" not in first)


def test_verifier_reports_wrong_values(verify_estimated):
    failure = verify_estimated("def kernel(a):\n    a.outputs[0].data[...] = 3 * a.inputs[0].data\n").failure
    assert failure.reason == "mismatch"
    assert "explained" not in failure.detail


def test_partial_run_is_not_compared_and_is_noted(verify_estimated):
    outcome = verify_estimated(HONEST, limit=BENCH - 1)
    assert outcome.feasible, outcome.failure
    notes = [line for line in outcome.skipped_checks if "blocks" in line]
    assert notes == ["at size bench, 1 of 4 blocks were run for the latency estimate: values were checked at smaller sizes"]


def test_partial_run_that_writes_out_of_bounds_is_refused(verify_estimated):
    outside = HONEST + (
        "    if a.inputs[0].data.size == 4096:\n"
        "        import ctypes\n"
        "        end = a.outputs[0].data.ctypes.data + a.outputs[0].data.nbytes\n"
        "        ctypes.memset(end, 7, 8)\n"
    )
    assert verify_estimated(outside, limit=BENCH - 1).failure.reason == "out_of_bounds"


def test_task_without_a_complete_run_is_a_user_error(verify_estimated):
    with pytest.raises(UserError, match="is too large to run completely in simulation: verify the kernel on a task with smaller sizes"):
        verify_estimated(HONEST, limit=1)


def test_time_limit_of_a_simulation_counts_cpu_time(verify_estimated):
    waits_once = "import time\nwaits = [5.0]\n" + HONEST + "    if waits:\n        time.sleep(waits.pop())\n"
    outcome = verify_estimated(waits_once, timeout_s=4.5)
    assert outcome.feasible, outcome.failure


@pytest.mark.parametrize("endless", ["    import time; time.sleep(10**6)\n", "    while True: pass\n"])
def test_simulation_that_hangs_ends(verify_estimated, endless):
    failure = verify_estimated("def kernel(a):\n" + endless, timeout_s=1.0).failure
    assert failure.reason == "timeout"
    assert "(timeout_s): 1 s whole runs; the time ended in whole runs. Fix a loop" in failure.detail


def test_reasons_of_rules_have_descriptions():
    assert all(REASONS[reason] for reason in ("local_memory", "queue", "event", "mask", "tiling"))
