"""Backends that find latencies for themselves and run kernels in simulation, next to the candidate's own code."""

import sys

import pytest
from judge_parts import HONEST
from priced_backend import Priced
from traced_backend import Traced

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import LatencyEstimator, TracedBackend
from evokernel.core.records import Candidate, Job
from evokernel.sandbox import layers
from evokernel.verify import incumbent, verify
from evokernel.verify.reasons import REASONS

BENCH = 4096


@pytest.fixture
def priced(doubling):
    def verified(text, timeout_s=20.0, task=doubling, **settings):
        candidate = Candidate(backend="priced_backend:Priced", files={"kernel.py": text})
        return verify(Job(backend=candidate.backend, settings=settings, task=task, candidate=candidate, timeout_s=timeout_s))

    return verified


def test_who_is_what():
    assert isinstance(Priced(), LatencyEstimator)
    assert not isinstance(Priced(), TracedBackend)
    assert isinstance(Traced(), LatencyEstimator)
    assert isinstance(Traced(), TracedBackend)
    assert not isinstance(make_plugin("backend", "cpp"), LatencyEstimator)
    assert isinstance(make_plugin("backend", "pallas"), TracedBackend)


def test_the_price_comes_from_what_the_process_wrote(priced):
    incumbent.KEPT.clear()
    outcome = priced(HONEST)
    assert outcome.feasible, outcome.failure
    assert (outcome.clock, outcome.latency_us, outcome.speedup) == ("estimate (a line)", BENCH / 100, 3.0)
    assert not incumbent.KEPT, "nothing is timed beside an earlier best, so nothing is kept for that"
    assert not [line for line in outcome.without if "estimate alone" in line]


@pytest.mark.skipif(sys.platform != "linux" or "landlock" not in layers.holding(), reason="needs Landlock")
def test_its_code_runs_where_nothing_can_be_written(priced):
    assert priced(HONEST).profile.summary.endswith("runs, in a jail")


def test_what_floods_the_report_leaves_its_end(priced):
    outcome = priced(HONEST + "    sys.stderr.write('x' * (1 << 20) + '\\n')\n")
    assert outcome.feasible, outcome.failure
    assert outcome.latency_us == BENCH / 100


def test_the_sizes_are_the_backends_choice(priced):
    odd_alone = HONEST + "    if a.inputs[0].data.size not in (4096, 2048):\n        a.outputs[0].data[...] = 0\n"
    assert priced(odd_alone).failure.gate == "check"
    assert priced("# small\n" + odd_alone).failure.gate == "time", "the sizes that come later are for those that would become a best"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def kernel(a):\n    raise CandidateError('queue', 'E-QUE-EMPTY')\n", "queue"),
        ("def kernel(a):\n    raise ValueError('no')\n", "raised"),
        ("def kernel(a):\n    os._exit(3)\n", "exit"),
        ("raise ValueError('while loading')\n", "raised"),
    ],
)
def test_a_failed_run_is_told_by_the_backend(priced, text, reason):
    failure = priced(text).failure
    assert (failure.gate, failure.reason) == ("check", reason)
    first, *rest = failure.detail.splitlines()
    assert first.startswith("told: ")
    assert rest == ["rule: none", "hint: none"]
    assert ("at size small" in first) == ("loading" not in first)


def test_wrong_values_are_the_judges_to_tell(priced):
    failure = priced("def kernel(a):\n    a.outputs[0].data[...] = 3 * a.inputs[0].data\n").failure
    assert failure.reason == "mismatch"
    assert "told" not in failure.detail


def test_the_values_of_a_part_are_not_judged_and_the_verdict_says_so(priced):
    outcome = priced(HONEST, limit=BENCH - 1)
    assert outcome.feasible, outcome.failure
    noted = [line for line in outcome.without if "blocks" in line]
    assert noted == ["at size bench 1 of 4 blocks were run, for the estimate: values were checked at smaller sizes"]


def test_a_part_that_changes_its_inputs_or_writes_outside_is_still_refused(priced):
    outside = HONEST + (
        "    if a.inputs[0].data.size == 4096:\n"
        "        import ctypes\n"
        "        end = a.outputs[0].data.ctypes.data + a.outputs[0].data.nbytes\n"
        "        ctypes.memset(end, 7, 8)\n"
    )
    assert priced(outside, limit=BENCH - 1).failure.reason == "out_of_bounds"


def test_where_no_size_is_run_in_full_nothing_is_judged(priced):
    with pytest.raises(UserError, match="is too large to be run in full here: verify it on a task with smaller sizes"):
        priced(HONEST, limit=1)


def test_reasons_of_rules_have_words():
    assert all(REASONS[reason] for reason in ("local_memory", "queue", "event", "mask", "tiling"))
