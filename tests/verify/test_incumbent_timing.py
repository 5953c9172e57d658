"""The incumbent is timed next to a candidate: paired samples, cached builds, and failures that do not blame the candidate."""

import pytest
from verifier_helpers import HONEST, SINE, SINE_KERNEL, needs_compiler

from evokernel.core.records import Candidate, Job, Outcome
from evokernel.suites.loader import load_tasks
from evokernel.verifier import incumbent, timing, verify
from evokernel.verifier.timing import PRECISION, is_undecided

TASK = SINE.replace("LENGTH", "20_000")


def make_candidate(repeats):
    return Candidate(backend="cpp", files={"kernel.cpp": SINE_KERNEL.replace("REPEATS", str(repeats))})


@pytest.fixture
def sine(tmp_path):
    path = tmp_path / "task.py"
    path.write_text(TASK)
    return load_tasks(str(path))[0]


@needs_compiler
def test_pairs_show_the_faster_kernel(sine):
    once, four = make_candidate(1), make_candidate(4)
    faster = verify(Job(backend="cpp", task=sine, candidate=once, incumbent=four))
    assert faster.feasible, faster.failure
    assert faster.incumbent == four.id
    assert len(faster.incumbent_us) == len(faster.samples_us) == len(faster.baseline_us["eager"])
    assert faster.speedup_interval("incumbent")[0] > 2
    slower = verify(Job(backend="cpp", task=sine, candidate=four, incumbent=once))
    assert slower.speedup_interval("incumbent")[1] < 0.5


def verify_pair(doubling, text, best, **more):
    one, other = (Candidate(backend="hostile_backend:Hostile", files={"kernel.py": source}) for source in (text, best))
    return verify(Job(backend=one.backend, task=doubling, candidate=one, incumbent=other, **more))


@pytest.mark.slow(one_in=5)
def test_verified_kernel_is_not_built_again(doubling, monkeypatch):
    import hostile_backend

    built_kernels, build = [], hostile_backend.Hostile.build

    def count(self, task, candidate, workdir):
        built_kernels.append(candidate.files["kernel.py"][-1])
        return build(self, task, candidate, workdir)

    monkeypatch.setattr(hostile_backend.Hostile, "build", count)
    incumbent.BUILD_CACHE.clear()
    for one, best in (("1", "0"), ("2", "1"), ("3", "2")):
        assert verify_pair(doubling, f"{HONEST}# {one}", f"{HONEST}# {best}").incumbent_us
    assert built_kernels == ["1", "0", "2", "3"]


@pytest.mark.parametrize(
    "incumbent_text",
    [
        "raise RuntimeError('cannot be loaded')",
        "def kernel(a):\n    os._exit(3)",
        "def kernel(a):\n    a.outputs[0].data[...] = 0",
        HONEST.replace("2 *", "2.0 *") + "\nimport threading\ndef burn():\n    while True: sum(range(1000))\n"
        "threading.Thread(target=burn, daemon=True).start()\n",
    ],
)
def test_failing_incumbent_does_not_fail_the_candidate(doubling, caplog, incumbent_text):
    outcome = verify_pair(doubling, HONEST, incumbent_text)
    assert outcome.feasible, outcome.failure
    assert (outcome.incumbent, outcome.incumbent_us) == ("", ())
    assert "is timed without the incumbent" in caplog.text


def test_incumbent_and_candidate_need_not_agree_bit_by_bit(doubling):
    close = HONEST.replace("2 * a.inputs[0].data", "2 * a.inputs[0].data * (1 + 2e-7)")
    outcome = verify_pair(doubling, HONEST, close)
    assert outcome.feasible, outcome.failure
    assert outcome.incumbent_us


def test_folders_of_both_kernels_are_removed(doubling, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert verify_pair(doubling, HONEST, HONEST + "# other\n").incumbent_us
    assert not list(tmp_path.glob("evokernel-verify-*"))


def test_build_cache_is_bounded(doubling, monkeypatch):
    monkeypatch.setattr(incumbent, "MAX_BUILDS", 2)
    incumbent.BUILD_CACHE.clear()
    for number in range(3):
        verify_pair(doubling, f"{HONEST}# {number}\n", HONEST, timing_s=0.02)
    assert len(incumbent.BUILD_CACHE) == 2
    monkeypatch.setattr(incumbent, "MAX_BUILD_BYTES", 10)
    verify_pair(doubling, f"{HONEST}# 5\n", HONEST, timing_s=0.02)
    assert len(incumbent.BUILD_CACHE) == 2


def test_synthetic_times_pair_with_the_incumbent(doubling):
    outcome = verify_pair(doubling, HONEST, HONEST + "# other\n", clock="synthetic")
    swapped_outcome = verify_pair(doubling, HONEST + "# other\n", HONEST, clock="synthetic")
    assert outcome.incumbent_us == swapped_outcome.samples_us
    assert outcome.median_speedup("incumbent") == pytest.approx(1 / swapped_outcome.median_speedup("incumbent"), rel=1e-3)


def test_only_a_possibly_faster_kernel_is_undecided():
    assert is_undecided((0.98, 1.05))
    assert not is_undecided((0.9, 1.02)), "the median is slower, so the kernel cannot become the best"
    assert not is_undecided((1 + PRECISION, 1.1))


def test_narrow_win_is_measured_in_two_starts(doubling, monkeypatch):
    starts = []
    start = incumbent.try_start

    def count(trial, arena):
        starts.append(trial.job.candidate.files["kernel.py"])
        return start(trial, arena)

    monkeypatch.setattr(incumbent, "try_start", count)
    monkeypatch.setattr(timing, "is_narrow_win", lambda outcome: True)
    outcome = verify_pair(doubling, HONEST, HONEST + "# other\n")
    assert starts == [HONEST + "# other\n", HONEST, HONEST + "# other\n"]
    assert len(outcome.samples_us) == len(outcome.incumbent_us) == len(outcome.baseline_us["eager"]) > timing.TARGET_PAIRS


@pytest.mark.parametrize(("ratio", "narrow"), [(0.9, False), (1.0, False), (1.05, True), (1.5, False)])
def test_only_a_small_gain_is_a_narrow_win(ratio, narrow):
    pairs = Outcome(gates=(), samples_us=(1.0,) * 20, incumbent_us=(ratio,) * 20, incumbent="x")
    assert timing.is_narrow_win(pairs) == narrow
    assert not timing.is_narrow_win(pairs.model_copy(update={"incumbent_us": ()}))
