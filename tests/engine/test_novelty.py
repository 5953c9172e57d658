"""Kernels that are not new are not verified, and refining may end when little is to be expected of it."""

import pytest
from engine_parts import Oracle, Writer, attempt, engine, task

from evokernel.core.config import RunConfig
from evokernel.core.records import Candidate, Stage
from evokernel.core.statistics import expected_gain
from evokernel.engine import novelty

LOOP = "for (int i = 0; i < n; ++i) out[i] = x[i] > 0 ? x[i] : 0;"


def made(code, n=0, feasible=False):
    return attempt(n, feasible=feasible).model_copy(update={"candidate": Candidate(backend="cpp", files={"kernel.cpp": code})})


@pytest.mark.parametrize(
    ("code", "is_known"),
    [
        (LOOP, True),
        (f"// the same once more\n  {LOOP}  /* and\nagain */", True),
        (LOOP.replace("i < n", "i < m"), False),
        ("if (n > 4) { a(); b(); } " + LOOP.replace("?", "+ 1 ?").replace("int", "long"), False),
        ("#pragma omp parallel for\n" + LOOP, False),
    ],
)
def test_code_is_compared_not_comments(code, is_known):
    assert (novelty.find_duplicate(Candidate(backend="cpp", files={"k.cpp": code}), [made(LOOP)], 0.1) is not None) == is_known


def test_the_nearest_attempt_is_named():
    found = novelty.find_duplicate(
        Candidate(backend="cpp", files={"k.cpp": LOOP}), [made("other()", 0), made(LOOP, 1), made("more()", 2)], 0.1
    )
    assert found is not None
    assert novelty.refusal(found).failure.detail == "nearly the same as attempt 1, which failed at check (mismatch): write something else"


def test_nothing_to_compare_is_new():
    nothing = Candidate(backend="cpp", files={}, notes="no code")
    assert novelty.find_duplicate(nothing, [made(LOOP)], 0.5) is None
    assert novelty.find_duplicate(Candidate(backend="cpp", files={"k.cpp": LOOP}), [], 0.5) is None


class Stubborn(Writer):
    """Gives in when it has been told so many times that it repeats itself."""

    def __init__(self, gives_in_after: int) -> None:
        super().__init__()
        self.after = gives_in_after

    def write(self, state, context):
        reply = super().write(state, context)
        refused = sum(a.outcome.failure is not None and a.outcome.failure.reason == "known" for a in state.attempts)
        own = [a for a in state.attempts if a.run]
        text = "the same words every time" if refused < self.after else f"other words {len(own)} than those of before {len(own)}"
        return reply.model_copy(update={"candidate": reply.candidate.model_copy(update={"files": {"kernel.cpp": text}})})


class Counting(Oracle):
    judged = 0

    def judge(self, job):
        self.judged += 1
        return super().judge(job)


def test_who_repeats_himself_is_asked_again_and_pays_for_it(tmp_path):
    oracle = Counting()
    e = engine(tmp_path, 3, [task("relu")], executor=oracle, novelty=0.5, generator=Stubborn(1), concurrency=1)
    first, second, third = e.attempts()
    assert first.candidate.code.startswith("the same")
    assert second.candidate.code.startswith("other")
    assert (first.usage.calls, second.usage.calls) == (1, 2)
    assert third.outcome.failure is None or third.outcome.failure.reason != "known"
    assert oracle.judged == 3


def test_who_does_not_give_in_is_not_verified(tmp_path):
    oracle = Counting()
    e = engine(tmp_path, 3, [task("relu")], executor=oracle, novelty=0.5, generator=Stubborn(9), concurrency=1)
    made = list(e.attempts())
    assert [a.outcome.failure.reason for a in made[1:]] == ["known", "known"]
    assert [a.reward for a in made[1:]] == [-1.0, -1.0]
    assert oracle.judged == 1


def test_without_the_setting_everything_is_verified(tmp_path):
    oracle = Counting()
    list(engine(tmp_path, 3, [task("relu")], executor=oracle, generator=Stubborn(9)).attempts())
    assert oracle.judged == 3


# --- when little is expected -------------------------------------------------------------------------------------------------


def refined(*rewards):
    drafted = [attempt(0, feasible=False), attempt(1)]
    return drafted + [attempt(n, stage=Stage.REFINE).model_copy(update={"reward": r}) for n, r in enumerate(rewards, start=2)]


def test_expectation_falls_without_gains_and_rises_with_them():
    assert expected_gain(refined()) == expected_gain([]) == 0.3
    idle = [expected_gain(refined(*[0.0] * n)) for n in range(8)]
    assert idle == sorted(idle, reverse=True)
    assert expected_gain(refined(-1.0, -1.0)) == expected_gain(refined(0.0, 0.0))  # a failure gains nothing, and loses nothing
    assert expected_gain(refined(0.0, 0.9)) > expected_gain(refined(0.9, 0.0)) > expected_gain(refined(0.0, 0.0))


def test_a_task_is_left_when_little_is_expected_and_never_before_it_is_solved():
    patient = RunConfig(budget=30, stop_when="gain")
    unsolved = [attempt(n, feasible=False) for n in range(12)]
    assert patient.remaining_attempts(unsolved) == 18
    assert patient.remaining_attempts(refined(0.0, 0.0, 0.0)) > 0
    assert patient.remaining_attempts(refined(*[0.0] * 8)) == 0
    assert patient.remaining_attempts(refined(*[0.0] * 5, 0.8)) > 0
    assert RunConfig(budget=30).remaining_attempts(refined(*[0.0] * 8)) == 20
    assert RunConfig(budget=5, stop_when="gain").remaining_attempts(refined(0.5, 0.5, 0.5)) == 0


def test_a_run_ends_sooner_and_resumes_as_one_that_was_not_stopped(tmp_path):
    straight = engine(tmp_path / "straight", 30, until="gain")
    total = len(list(straight.attempts()))
    assert total < 5 * 30
    first = engine(tmp_path / "cut", 30, until="gain")
    going = first.attempts()
    for _ in range(total // 2):
        next(going)
    going.close()
    first.close()
    list(engine(tmp_path / "cut", 30, until="gain").attempts())
    assert (tmp_path / "cut" / "attempts.jsonl").read_bytes() == (tmp_path / "straight" / "attempts.jsonl").read_bytes()
