"""Duplicate kernels are not verified, and refining stops when the expected gain is small."""

import pytest
from engine_parts import ArithmeticExecutor, EchoGenerator, make_attempt, make_engine, make_task

from evokernel.core.config import RunConfig
from evokernel.core.records import Candidate, Stage
from evokernel.core.state import expected_gain
from evokernel.engine import novelty

LOOP = "for (int i = 0; i < n; ++i) out[i] = x[i] > 0 ? x[i] : 0;"


def attempt_with_code(code, n=0, feasible=False):
    return make_attempt(n, feasible=feasible).model_copy(update={"candidate": Candidate(backend="cpp", files={"kernel.cpp": code})})


@pytest.mark.parametrize(
    ("code", "is_duplicate"),
    [
        (LOOP, True),
        (f"// the same once more\n  {LOOP}  /* and\nagain */", True),
        (LOOP.replace("i < n", "i < m"), False),
        ("if (n > 4) { a(); b(); } " + LOOP.replace("?", "+ 1 ?").replace("int", "long"), False),
        ("#pragma omp parallel for\n" + LOOP, False),
    ],
)
def test_comments_are_ignored_in_the_comparison(code, is_duplicate):
    assert (
        novelty.find_duplicate(Candidate(backend="cpp", files={"k.cpp": code}), [attempt_with_code(LOOP)], 0.1) is not None
    ) == is_duplicate


def test_duplicate_outcome_names_the_most_similar_attempt():
    duplicate = novelty.find_duplicate(
        Candidate(backend="cpp", files={"k.cpp": LOOP}),
        [attempt_with_code("other()", 0), attempt_with_code(LOOP, 1), attempt_with_code("more()", 2)],
        0.1,
    )
    assert duplicate is not None
    assert (
        novelty.duplicate_outcome(duplicate).failure.detail
        == "This kernel is nearly identical to attempt 2, which failed at gate check (mismatch). Write a different kernel."
    )


def test_without_code_or_earlier_attempts_there_is_no_duplicate():
    nothing = Candidate(backend="cpp", files={}, notes="no code")
    assert novelty.find_duplicate(nothing, [attempt_with_code(LOOP)], 0.5) is None
    assert novelty.find_duplicate(Candidate(backend="cpp", files={"k.cpp": LOOP}), [], 0.5) is None


class RepeatingGenerator(EchoGenerator):
    """Repeats one candidate until it was rejected `gives_in_after` times."""

    def __init__(self, gives_in_after: int) -> None:
        super().__init__()
        self.after = gives_in_after

    def write(self, state, context):
        reply = super().write(state, context)
        rejection_count = sum(a.outcome.failure is not None and a.outcome.failure.reason == "duplicate" for a in state.attempts)
        own = [a for a in state.attempts if a.run]
        text = "the same words every time" if rejection_count < self.after else f"other words {len(own)} than those of before {len(own)}"
        return reply.model_copy(update={"candidate": reply.candidate.model_copy(update={"files": {"kernel.cpp": text}})})


class CountingExecutor(ArithmeticExecutor):
    verification_count = 0

    def verify(self, job):
        self.verification_count += 1
        return super().verify(job)


def test_duplicate_is_requested_again_and_its_usage_counts(tmp_path):
    executor = CountingExecutor()
    e = make_engine(tmp_path, 3, [make_task("relu")], executor=executor, min_novelty=0.5, generator=RepeatingGenerator(1), concurrency=1)
    first, second, third = e.make_attempts()
    assert first.candidate.code.startswith("the same")
    assert second.candidate.code.startswith("other")
    assert (first.usage.calls, second.usage.calls) == (1, 2)
    assert third.outcome.failure is None or third.outcome.failure.reason != "duplicate"
    assert executor.verification_count == 3


def test_repeated_duplicate_is_not_verified(tmp_path):
    executor = CountingExecutor()
    e = make_engine(tmp_path, 3, [make_task("relu")], executor=executor, min_novelty=0.5, generator=RepeatingGenerator(9), concurrency=1)
    attempts = list(e.make_attempts())
    assert [a.outcome.failure.reason for a in attempts[1:]] == ["duplicate", "duplicate"]
    assert [a.reward for a in attempts[1:]] == [-1.0, -1.0]
    assert executor.verification_count == 1


def test_without_min_novelty_a_similar_candidate_is_no_duplicate(tmp_path):
    executor = CountingExecutor()
    attempts = make_engine(tmp_path, 3, [make_task("relu")], executor=executor, generator=RepeatingGenerator(9)).make_attempts()
    assert not any(a.outcome.failure and a.outcome.failure.reason == "duplicate" for a in attempts)
    assert executor.verification_count == 1, "identical kernels are verified once"


# --- expected gain -------------------------------------------------------------------------------------------------


def with_refinements(*rewards):
    drafts = [make_attempt(0, feasible=False), make_attempt(1)]
    return drafts + [make_attempt(n, stage=Stage.REFINE).model_copy(update={"reward": r}) for n, r in enumerate(rewards, start=2)]


def test_expected_gain_falls_without_gains_and_rises_with_them():
    assert expected_gain(with_refinements()) == expected_gain([]) == 0.3
    without_gain = [expected_gain(with_refinements(*[0.0] * n)) for n in range(8)]
    assert without_gain == sorted(without_gain, reverse=True)
    assert expected_gain(with_refinements(-1.0, -1.0)) == expected_gain(with_refinements(0.0, 0.0))  # a failure counts as zero gain
    assert expected_gain(with_refinements(0.0, 0.9)) > expected_gain(with_refinements(0.9, 0.0)) > expected_gain(with_refinements(0.0, 0.0))


def test_solved_task_stops_when_expected_gain_is_small():
    patient = RunConfig(budget=30, stop_when="gain")
    unsolved = [make_attempt(n, feasible=False) for n in range(12)]
    assert patient.remaining_attempts(unsolved) == 18
    assert patient.remaining_attempts(with_refinements(0.0, 0.0, 0.0)) > 0
    assert patient.remaining_attempts(with_refinements(*[0.0] * 8)) == 0
    assert patient.remaining_attempts(with_refinements(*[0.0] * 5, 0.8)) > 0
    assert RunConfig(budget=30).remaining_attempts(with_refinements(*[0.0] * 8)) == 20
    assert RunConfig(budget=5, stop_when="gain").remaining_attempts(with_refinements(0.5, 0.5, 0.5)) == 0


def test_stop_when_gain_ends_earlier_and_resumed_run_equals_straight_run(tmp_path):
    straight = make_engine(tmp_path / "straight", 30, stop_when="gain")
    total = len(list(straight.make_attempts()))
    assert total < 5 * 30
    first = make_engine(tmp_path / "cut", 30, stop_when="gain")
    iterator = first.make_attempts()
    for _ in range(total // 2):
        next(iterator)
    iterator.close()
    first.close()
    list(make_engine(tmp_path / "cut", 30, stop_when="gain").make_attempts())
    assert (tmp_path / "cut" / "attempts.jsonl").read_bytes() == (tmp_path / "straight" / "attempts.jsonl").read_bytes()


class ListingExecutor(ArithmeticExecutor):
    """Lists the kernels that it verifies."""

    def __init__(self) -> None:
        super().__init__()
        self.verified: list[str] = []

    def submit(self, job):
        self.verified.append(job.candidate.code)
        return super().submit(job)


class TwoKernels(EchoGenerator):
    """Writes two kernels in turn."""

    def write(self, state, context):
        reply = super().write(state, context)
        files = {"kernel.cpp": ("mine 2", "other 1")[len(state.attempts) % 2]}
        return reply.model_copy(update={"candidate": reply.candidate.model_copy(update={"files": files})})


def test_identical_kernel_is_verified_once_and_its_outcome_says_so(tmp_path):
    executor = ListingExecutor()
    engine = make_engine(tmp_path / "run", budget=4, tasks=[make_task("relu")], executor=executor, generator=TwoKernels())
    attempts = list(engine.make_attempts())
    assert executor.verified == ["mine 2", "other 1"]
    assert [attempt.outcome.reused_from for attempt in attempts] == ["", "", "t/relu/0", "t/relu/1"]
    assert attempts[2].outcome.samples_us == attempts[0].outcome.samples_us
    engine.close()
    resumed = make_engine(tmp_path / "run", budget=4, generator=TwoKernels())
    assert list(resumed.make_attempts()) == attempts


def test_failure_of_the_machine_is_not_reused():
    def fails(reason, gate="check"):
        earlier = attempt_with_code(LOOP)
        result = earlier.outcome.gates[-1].model_copy(update={"gate": gate, "reason": reason})
        return earlier.model_copy(update={"outcome": earlier.outcome.model_copy(update={"gates": (result,)})})

    kernel = fails("").candidate
    assert novelty.find_identical(kernel, [fails("mismatch")]) is not None
    assert novelty.find_identical(kernel, [fails("timeout")]) is None
    assert novelty.find_identical(kernel, [fails("duplicate", "write")]) is None
