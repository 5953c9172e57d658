"""Attempts for the tests of strategies: kernels with a latency, a profile and a start point, in a state of their own task."""

from engine_parts import make_attempt, make_task

from evokernel.core.records import Attempt, Opportunity, Profile, Stage
from evokernel.core.state import State


def make_kernel(
    n: int,
    latency: float | None = 10.0,
    bottleneck: str = "memory",
    code: str = "y[i] = x[i];",
    start: int | None = None,
    figures: dict[str, float] | None = None,
    gains: dict[str, float] | None = None,
) -> Attempt:
    """An attempt on the task `relu`; without a latency it failed. `gains` are the opportunities of its profile by cause."""
    attempt = make_attempt(n, "relu", latency is not None, Stage.DRAFT if start is None else Stage.REFINE, latency=latency or 0.0)
    opportunities = tuple(Opportunity(cause=cause, gain_us=gain) for cause, gain in (gains or {}).items())
    profile = Profile(bottleneck=bottleneck, summary="", figures=figures or {}, opportunities=opportunities)
    return attempt.model_copy(
        update={
            "start_point": None if start is None else f"t/relu/{start}",
            "candidate": attempt.candidate.model_copy(update={"files": {"kernel.cpp": f"{code}  // {n}"}}),
            "outcome": attempt.outcome.model_copy(update={"profile": profile if latency is not None else None}),
        }
    )


def make_state(*attempts: Attempt) -> State:
    return State(task=make_task("relu"), attempts=attempts, round=len(attempts))


def number(attempt: Attempt | None) -> int | None:
    """The number of an attempt, from its id."""
    return attempt and int(attempt.id.rpartition("/")[2])
