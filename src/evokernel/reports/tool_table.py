"""Generators with tools, such as agents, in reports: what they called, tried and submitted."""

from __future__ import annotations

from collections.abc import Sequence

from evokernel.core.records import ToolUse, Trial
from evokernel.reports import formatting
from evokernel.reports.metrics import TaskResult
from evokernel.reports.tables import Column, Table


def tool_table(results: Sequence[TaskResult]) -> Table:
    """Return one row for the attempts that used tools; no row if none did."""
    columns = (
        Column("attempts", "count", explanation="attempts of an agent"),
        Column("calls", "count", explanation="calls of tools, without submissions"),
        Column("tried", "count", explanation="kernels that agents verified themselves"),
        Column("correct", "count", explanation="of these, kernels that passed every gate"),
        Column("submitted", "count", explanation="attempts in which the agent submitted a kernel"),
        Column("failed", "count", explanation="agents that failed or were killed"),
    )
    uses = [attempt.tool_use for result in results for attempt in result.attempts if attempt.tool_use]
    if not uses:
        return Table("Agents", columns, ())
    trials = [trial for use in uses for trial in use.trials]
    row = (
        len(uses),
        sum(use.calls for use in uses),
        len(trials),
        sum(is_correct(trial) for trial in trials),
        sum(use.is_submitted for use in uses),
        sum(use.ending != "ended" for use in uses),
    )
    return Table("Agents", columns, (row,))


def is_correct(trial: Trial) -> bool:
    """Whether a trial passed every gate."""
    return trial.outcome is not None and trial.outcome.feasible


def describe_trials(tool_use: ToolUse) -> list[str]:
    """Return one line for each kernel that an agent tried: `kernel 1a2b3c: correct, 12.5 µs`."""
    return [f"kernel {trial.candidate.id}: {describe_trial(trial)}" for trial in tool_use.trials]


def describe_trial(trial: Trial) -> str:
    """The outcome of a trial in a few words."""
    if trial.outcome is None:
        return "the verification could not be completed"
    if trial.outcome.failure:
        return f"failed at gate {trial.outcome.failure.gate} ({trial.outcome.failure.reason})"
    return f"correct, {formatting.format_latency(trial.outcome.latency_us)}"
