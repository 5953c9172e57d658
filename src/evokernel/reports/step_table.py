"""The optional steps of a generator in reports: how often each was taken, what came of it, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from evokernel.core.records import Attempt, Step, Usage
from evokernel.reports import formatting
from evokernel.reports.metrics import TaskResult
from evokernel.reports.tables import Cell, Column, Table

STEP_NAMES = ("plan", "critic", "repair")


def steps_table(results: Sequence[TaskResult]) -> Table:
    """Return one row per step that the run took."""
    columns = (
        Column("step"),
        Column("attempts", "count", explanation="attempts that took the step"),
        Column("compiled", "count", explanation="of these, attempts whose final kernel compiles"),
        Column("correct", "count", explanation="of these, attempts whose final kernel is correct"),
        Column("predicted", "us", explanation="median of the gains that plans predicted, bounded by the profile", drop_order=2),
        Column("achieved", "us", explanation="median of what correct kernels saved compared with their start points", drop_order=1),
        Column("calls", "count", explanation="model calls of the step"),
        Column("cost"),
    )
    return Table("Steps of the generator", columns, tuple(row for name in STEP_NAMES if (row := step_row(name, results))))


def step_row(name: str, results: Sequence[TaskResult]) -> tuple[Cell, ...]:
    """Return the row of one step; empty if no attempt took it."""
    pairs = [(result, attempt) for result in results for attempt in result.attempts if any(step.name == name for step in attempt.steps)]
    steps = [step for _, attempt in pairs for step in attempt.steps if step.name == name]
    if not steps:
        return ()
    predicted = [step.gain_us for step in steps if step.gain_us is not None]
    achieved = [gain for result, attempt in pairs if (gain := achieved_gain_us(result, attempt)) is not None]
    usage = sum((step.usage for step in steps), start=Usage())
    return (
        name,
        len(pairs),
        sum(attempt.outcome.is_compiled for _, attempt in pairs),
        sum(attempt.outcome.feasible for _, attempt in pairs),
        median(predicted) if predicted else None,
        median(achieved) if achieved else None,
        usage.calls,
        formatting.format_cost(usage),
    )


def achieved_gain_us(result: TaskResult, attempt: Attempt) -> float | None:
    """Return what a correct refinement saved compared with its start point, in microseconds; None if either latency is unknown."""
    start = next((other for other in result.attempts if other.id == attempt.start_point), None)
    if start is None or not attempt.outcome.feasible or attempt.outcome.latency_us is None or start.outcome.latency_us is None:
        return None
    return start.outcome.latency_us - attempt.outcome.latency_us


def describe_step(step: Step) -> str:
    """Return a step on one line: `plan (no_overlap, predicted gain 12.5 us): Plan 2: ...`."""
    facts = [step.cause, "" if step.gain_us is None else f"predicted gain {formatting.format_latency(step.gain_us)}"]
    known = ", ".join(fact for fact in facts if fact)
    return f"{step.name}{f' ({known})' if known else ''}: {formatting.first_line(step.text, 160)}"
