"""The state of a task: its attempts so far, which of them is the best, and the gain to expect of one more."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property
from math import hypot, log

from evokernel.core.memory_ids import make_note_id
from evokernel.core.records import Attempt, Context, Outcome, Record, Task
from evokernel.core.statistics import is_significant

MIN_UNPAIRED_GAIN = 0.02
"""Smallest significant relative difference of latencies that were not measured alternately; smaller ones are noise on every machine that
was measured."""
INITIAL_EXPECTED_GAIN, GAIN_SMOOTHING = 0.3, 0.3
"""Gain expected of a first refinement; weight of the latest refinement in the moving average of gains."""


class State(Record):
    """A task with its attempts so far (s). Derived from the journal, never stored."""

    task: Task
    """The task (x)."""
    attempts: tuple[Attempt, ...] = ()
    """Attempts on the task in order, revoked kernels as failures."""
    round: int = 0
    """Round of the loop, from 0."""
    omitted_attempts: int = 0
    """Earlier attempts that this state leaves out, for a context without them; the next id counts them."""

    @cached_property
    def start_points(self) -> tuple[Attempt, ...]:
        return tuple(a for a in self.attempts if a.outcome.feasible)  # P(x)

    @cached_property
    def best(self) -> Attempt | None:
        """The fastest feasible attempt; a later attempt replaces it only if it is significantly faster."""
        return (best_so_far(self.attempts) or [None])[-1]

    @property
    def last_attempt(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def next_id(self) -> str:
        return f"{self.task.id}/{len(self.attempts) + self.omitted_attempts}"


def visible_state(state: State, context: Context) -> State:
    """Return the state with the attempts that a generator may see in this context. Only the complete state knows the next id."""
    if context.include_history and not context.hidden_attempts:
        return state
    hidden = set(context.hidden_attempts)
    attempts = tuple(attempt for attempt in state.attempts if attempt.id not in hidden) if context.include_history else ()
    return State(task=state.task, attempts=attempts, round=state.round)


def hidden_item_ids(state: State, context: Context) -> set[str]:
    """Return the ids of the memory items of hidden attempts."""
    hidden = set(context.hidden_attempts)
    return {id for attempt in state.attempts if attempt.id in hidden for id in (attempt.memory_id, make_note_id(attempt.memory_id))}


def speed_gain(outcome: Outcome, best: Attempt) -> float:
    """Return the logarithm of the speedup of a feasible kernel over the best one; 0 if the difference is not significant.

    If the two kernels were measured alternately, the confidence interval of the paired speedups decides. Otherwise latencies must differ
    by more than their noise, unless both are exact (a single sample each).
    """
    if outcome.incumbent == best.candidate.id and (interval := outcome.speedup_interval("incumbent")):
        return log(outcome.median_speedup("incumbent") or 1.0) if is_significant(interval) else 0.0
    own, before = outcome.latency_us, best.outcome.latency_us
    if not own or not before:
        return 0.0
    gain = log(before) - log(own)
    if len(outcome.samples_us) == len(best.outcome.samples_us) == 1:
        return gain
    return gain if abs(gain) > max(MIN_UNPAIRED_GAIN, hypot(outcome.noise or 0.0, best.outcome.noise or 0.0)) else 0.0


def expected_gain(attempts: Iterable[Attempt]) -> float:
    """Return the gain expected of one more refinement: an exponential moving average of past gains, from INITIAL_EXPECTED_GAIN."""
    expected = INITIAL_EXPECTED_GAIN
    for attempt in attempts:
        if attempt.stage == "refine":
            expected += GAIN_SMOOTHING * (max(0.0, attempt.reward) - expected)
    return expected


def is_faster(attempt: Attempt, best: Attempt | None) -> bool:
    """Return whether an attempt replaces the best one so far; identical code does not."""
    if not attempt.outcome.feasible:
        return False
    if best is None:
        return True
    if not best.outcome.latency_us:
        return bool(attempt.outcome.latency_us)
    return attempt.candidate.files != best.candidate.files and speed_gain(attempt.outcome, best) > 0


def best_so_far(attempts: Iterable[Attempt], excluded: Collection[str] = ()) -> list[Attempt | None]:
    """Return the best kernel after each attempt; None until one is feasible. Attempts with excluded ids never count."""
    best: Attempt | None = None
    bests = []
    for attempt in attempts:
        best = attempt if attempt.id not in excluded and is_faster(attempt, best) else best
        bests.append(best)
    return bests
