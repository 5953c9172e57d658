"""Hypotheses about the latency in reports: what came of those that attempts tested, and what is expected next."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

from evokernel.core.hypotheses import Prediction, list_predictions, rank_hypotheses
from evokernel.core.records import Attempt
from evokernel.core.state import State
from evokernel.reports import formatting
from evokernel.reports.metrics import TaskResult
from evokernel.reports.tables import Cell, Column, Table

MAX_ROWS = 6


def tested_table(results: Sequence[TaskResult]) -> Table:
    """Return one row per cause that a policy asked to address, most frequent first."""
    columns = (
        Column("cause to address"),
        Column("attempts", "count", explanation="refinements that the policy asked to address the cause"),
        Column("correct", "count", explanation="of these, attempts with a correct kernel"),
        Column("predicted", "us", explanation="median of the gains that the profiles predicted", drop_order=1),
        Column("achieved", "us", explanation="median of what correct kernels saved compared with their start points, 0 within the noise"),
        Column("came true", "share", explanation="mean share of the predicted gains that correct kernels brought"),
    )
    predictions = [one for result in results for one in list_predictions(result.attempts) if one.attempt.focus]
    causes = sorted({one.cause for one in predictions}, key=lambda cause: (-sum(one.cause == cause for one in predictions), cause))
    rows = tuple(cause_row(cause, [one for one in predictions if one.cause == cause]) for cause in causes)
    return Table("Hypotheses about the latency", columns, rows)


def cause_row(cause: str, predictions: Sequence[Prediction]) -> tuple[Cell, ...]:
    """Return the row of one cause."""
    gains = [one.gain_us for one in predictions if one.gain_us is not None]
    shares = [one.share for one in predictions if one.share is not None]
    return (
        cause,
        len(predictions),
        sum(one.attempt.outcome.feasible for one in predictions),
        median(one.predicted_us for one in predictions),
        median(gains) if gains else None,
        fmean(shares) if shares else None,
    )


def open_table(result: TaskResult) -> Table | None:
    """Return the hypotheses about the kernels of a task, the most promising first; None if its attempts tested none."""
    ranks = rank_hypotheses(State(task=result.task, attempts=result.attempts)) if any(one.focus for one in result.attempts) else []
    columns = (
        Column("start point"),
        Column("cause"),
        Column("predicted", "us"),
        Column("refinements", "count"),
        Column("came true", "share"),
        Column("expected", "us"),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (formatting.format_attempt(rank.start.id), one.cause, one.predicted_us, one.refinements, one.realised_share, one.expected_us)
        for rank in ranks[:MAX_ROWS]
        for one in [rank.hypothesis]
    )
    return Table("Open hypotheses", columns, rows, "What the next refinement may gain, the most promising first.") if rows else None


def describe_focus(attempt: Attempt) -> str:
    """Return the hypothesis of an attempt on one line: `focus no_overlap (predicted 12.5 us, expected 4.7 us)`; empty without one."""
    if (focus := attempt.focus) is None:
        return ""
    predicted, expected = formatting.format_latency(focus.predicted_us), formatting.format_latency(focus.expected_us)
    return f"focus {focus.cause} (predicted {predicted}, expected {expected})"
