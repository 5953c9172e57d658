"""The best kernel so far, timed beside a candidate: what the pairs say, what it costs, and who is blamed for its trouble."""

import pytest
from judge_parts import HONEST, SINE, SINE_KERNEL, needs_compiler

from evokernel.core.records import Candidate, Job, Outcome
from evokernel.tasks.loader import load
from evokernel.verify import incumbent, timing, verify
from evokernel.verify.timing import PRECISION, is_close

TASK = SINE.replace("LENGTH", "20_000")


def candidate(repeats):
    return Candidate(backend="cpp", files={"kernel.cpp": SINE_KERNEL.replace("REPEATS", str(repeats))})


@pytest.fixture
def sine(tmp_path):
    path = tmp_path / "task.py"
    path.write_text(TASK)
    return load(str(path))[0]


@needs_compiler
def test_pairs_tell_the_faster_from_the_slower(sine):
    once, four = candidate(1), candidate(4)
    faster = verify(Job(backend="cpp", task=sine, candidate=once, incumbent=four))
    assert faster.feasible, faster.failure
    assert faster.incumbent == four.id
    assert len(faster.incumbent_us) == len(faster.samples_us) == len(faster.baseline_us["eager"])
    assert faster.speedup_interval("incumbent")[0] > 2
    slower = verify(Job(backend="cpp", task=sine, candidate=four, incumbent=once))
    assert slower.speedup_interval("incumbent")[1] < 0.5


def judged(doubling, text, best, **more):
    one, other = (Candidate(backend="hostile_backend:Hostile", files={"kernel.py": source}) for source in (text, best))
    return verify(Job(backend=one.backend, task=doubling, candidate=one, incumbent=other, **more))


def test_a_kernel_that_was_judged_here_is_not_built_again(doubling, monkeypatch):
    import hostile_backend

    built, build = [], hostile_backend.Hostile.build

    def count(self, task, candidate, workdir):
        built.append(candidate.files["kernel.py"][-1])
        return build(self, task, candidate, workdir)

    monkeypatch.setattr(hostile_backend.Hostile, "build", count)
    incumbent.KEPT.clear()
    for one, best in (("1", "0"), ("2", "1"), ("3", "2")):
        assert judged(doubling, f"{HONEST}# {one}", f"{HONEST}# {best}").incumbent_us
    assert built == ["1", "0", "2", "3"]


@pytest.mark.parametrize(
    "trouble",
    [
        "raise RuntimeError('cannot be loaded')",
        "def kernel(a):\n    os._exit(3)",
        "def kernel(a):\n    a.outputs[0].data[...] = 0",
        HONEST.replace("2 *", "2.0 *") + "\nimport threading\ndef burn():\n    while True: sum(range(1000))\n"
        "threading.Thread(target=burn, daemon=True).start()\n",
    ],
)
def test_trouble_of_the_best_so_far_is_not_the_candidates(doubling, caplog, trouble):
    outcome = judged(doubling, HONEST, trouble)
    assert outcome.feasible, outcome.failure
    assert (outcome.incumbent, outcome.incumbent_us) == ("", ())
    assert "is not timed beside" in caplog.text


def test_cases_of_one_kernel_are_not_compared_with_the_others_bits(doubling):
    close = HONEST.replace("2 * a.inputs[0].data", "2 * a.inputs[0].data * (1 + 2e-7)")
    outcome = judged(doubling, HONEST, close)
    assert outcome.feasible, outcome.failure
    assert outcome.incumbent_us


def test_folders_of_both_are_gone_afterwards(doubling, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert judged(doubling, HONEST, HONEST + "# other\n").incumbent_us
    assert not list(tmp_path.glob("evokernel-judge-*"))


def test_few_builds_are_kept_and_no_large_one(doubling, monkeypatch):
    monkeypatch.setattr(incumbent, "BUILDS", 2)
    incumbent.KEPT.clear()
    for number in range(3):
        judged(doubling, f"{HONEST}# {number}\n", HONEST, clock="synthetic")
    assert len(incumbent.KEPT) == 2
    monkeypatch.setattr(incumbent, "BUILD_BYTES", 10)
    judged(doubling, f"{HONEST}# 5\n", HONEST, clock="synthetic")
    assert len(incumbent.KEPT) == 2


def test_made_up_times_pair_with_those_of_the_best_so_far(doubling):
    found = judged(doubling, HONEST, HONEST + "# other\n", clock="synthetic")
    again = judged(doubling, HONEST + "# other\n", HONEST, clock="synthetic")
    assert found.incumbent_us == again.samples_us
    assert found.median_speedup("incumbent") == pytest.approx(1 / again.median_speedup("incumbent"), rel=1e-3)


def test_only_who_may_be_faster_is_a_close_call():
    assert is_close((0.98, 1.05))
    assert not is_close((0.9, 1.02)), "the middle is slower: no best whatever comes"
    assert not is_close((1 + PRECISION, 1.1))


def test_a_narrow_gain_is_measured_in_two_starts(doubling, monkeypatch):
    starts = []
    start = incumbent.is_ready

    def count(trial, arena):
        starts.append(trial.job.candidate.files["kernel.py"])
        return start(trial, arena)

    monkeypatch.setattr(incumbent, "is_ready", count)
    monkeypatch.setattr(timing, "is_narrow", lambda outcome: True)
    outcome = judged(doubling, HONEST, HONEST + "# other\n")
    assert starts == [HONEST + "# other\n", HONEST, HONEST + "# other\n"]
    assert len(outcome.samples_us) == len(outcome.incumbent_us) == len(outcome.baseline_us["eager"]) >= 2 * timing.PAIRS


@pytest.mark.parametrize(("ratio", "narrow"), [(0.9, False), (1.0, False), (1.05, True), (1.5, False)])
def test_only_a_small_gain_is_narrow(ratio, narrow):
    pairs = Outcome(gates=(), samples_us=(1.0,) * 20, incumbent_us=(ratio,) * 20, incumbent="x")
    assert timing.is_narrow(pairs) == narrow
    assert not timing.is_narrow(pairs.model_copy(update={"incumbent_us": ()}))
