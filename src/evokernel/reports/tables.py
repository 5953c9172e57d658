"""Builds tables as data: columns with units and explanations, rows of plain values. The callers print or render them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from evokernel.core.labels import BASELINE_DETAILS
from evokernel.core.records import Attempt, Outcome
from evokernel.reports import formatting, metrics
from evokernel.reports.metrics import FAST_P, Quartiles, TaskResult

Cell = str | int | float | None
REEVALUATION_NOTE = "latency in the re-evaluation after the run, in brackets the latency in the loop if it differs by more than noise"
BEST_NOTE = "latency of the fastest correct kernel"
Unit = Literal["text", "count", "us", "ratio", "share", "value"]


@dataclass(frozen=True)
class Column:
    """A heading, the unit of its cells, and an explanation."""

    name: str
    unit: Unit = "text"
    explanation: str = ""
    """Shown below the table."""
    drop_order: int = 0
    """If the table is too wide, the column with the largest number is dropped first; 0: never dropped."""

    @property
    def is_right_aligned(self) -> bool:
        """Whether cells are aligned to the right."""
        return self.unit != "text"

    def format_cell(self, cell: Cell) -> str:
        """Return one cell as text."""
        if cell is None:
            return formatting.UNKNOWN
        if isinstance(cell, str):
            return cell
        match self.unit:
            case "us":
                return formatting.format_latency(cell)
            case "ratio":
                return formatting.format_ratio(cell)
            case "share":
                return formatting.format_percent(cell)
            case "value":
                return f"{cell:+.2f}"
        return str(cell)


@dataclass(frozen=True)
class Table:
    """A title, columns, rows, and a note on the table."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def format_rows(self) -> list[list[str]]:
        """Return every cell as text."""
        return [[column.format_cell(cell) for column, cell in zip(self.columns, row)] for row in self.rows]

    @property
    def caption(self) -> str:
        """The note, followed by the explanations of the columns."""
        explanations = "; ".join(f"{column.name}: {column.explanation}" for column in self.columns if column.explanation)
        return " ".join(text for text in (self.note, f"{explanations}." if explanations else "") if text)

    def drop_column(self) -> Table | None:
        """Return the table without the column that is dropped first; None if no column may be dropped."""
        index = max(range(len(self.columns)), key=lambda n: self.columns[n].drop_order)
        if not self.columns[index].drop_order:
            return None
        rows = tuple(row[:index] + row[index + 1 :] for row in self.rows)
        return replace(self, columns=self.columns[:index] + self.columns[index + 1 :], rows=rows)


def shorten_task_names(ids: Sequence[str]) -> dict[str, str]:
    """Return task names without their suite if all tasks belong to one suite."""
    one_suite = len({name.rpartition("/")[0] for name in ids}) == 1
    return {name: name.rpartition("/")[2] if one_suite else name for name in ids}


def operator_table(results: Sequence[TaskResult]) -> Table:
    """Return one row per task: first correct attempt, latencies, speed-up, bottleneck and failures."""
    names = shorten_task_names([result.task.id for result in results])
    base, baselines = baseline_heading(results), metrics.baseline_names(results)
    columns = (
        Column("task"),
        Column("round", "count", explanation="number of the first correct attempt, from 1", drop_order=3),
        Column("first correct", "us", explanation="latency of the first correct kernel", drop_order=2),
        Column(
            "best",
            "us",
            explanation=REEVALUATION_NOTE if any(result.best_reevaluation for result in results) else BEST_NOTE,
        ),
        Column(base, "us", explanation="; ".join(BASELINE_DETAILS[name] for name in sorted(baselines) if name in BASELINE_DETAILS)),
        Column("speed-up", "ratio", explanation=f"latency of {base} / latency of best (above 1×: the kernel is faster)"),
        Column("first→best", "ratio", explanation="latency of first correct / latency of best", drop_order=1),
        Column("floor", "us", explanation="lower bound of the latency: the task's bytes and operations at the device's peak rates"),
        Column("bound by", explanation=bottleneck_note(results)),
        Column("gates", explanation="attempts that passed all gates / all attempts", drop_order=4),
        Column("failures", explanation="reasons of failed attempts with their counts (+N: N further reasons)"),
    )
    rows = tuple(operator_row(result, names[result.task.id]) for result in results)
    clocks = metrics.clock_names(attempt for result in results for attempt in result.attempts)
    return Table("Operators", columns, rows, f"Times: {formatting.clock_label(clocks)}.")


def bottleneck_note(results: Sequence[TaskResult]) -> str:
    """Explain the bottlenecks that occur in a table."""
    names = sorted({name for result in results if (name := result.bottleneck)})
    details = [f"{name} = {formatting.BOTTLENECK_EXPLANATIONS[name]}" for name in names if name in formatting.BOTTLENECK_EXPLANATIONS]
    return "resource that limits the best kernel" + (f" ({', '.join(details)})" if details else "")


def baseline_heading(results: Sequence[TaskResult]) -> str:
    """Return the heading of the baseline column; `baseline` if several baselines occur or none is known."""
    names = metrics.baseline_names(results)
    return formatting.baseline_label(names) if len(names) == 1 else "baseline"


def operator_row(result: TaskResult, name: str) -> tuple[Cell, ...]:
    """Return the cells of `operator_table` for one task."""
    first = result.first_correct
    return (
        name,
        result.first_correct_round,
        first.outcome.latency_us if first else None,
        format_best_latency(result),
        result.baseline_us,
        result.speedup,
        result.gain,
        result.floor_us,
        result.bottleneck,
        f"{len(result.correct_attempts)}/{len(result.attempts)}",
        format_failures(result.attempts, max_reasons=3),
    )


def format_best_latency(result: TaskResult) -> Cell:
    """Return the best kernel's latency, with its latency in the loop if they differ by more than noise."""
    latency_us = result.best_outcome.latency_us if result.best_outcome else None
    if result.original_latency_us is None:
        return latency_us
    return f"{formatting.format_latency(latency_us)} (in the loop {formatting.format_latency(result.original_latency_us)})"


def format_failures(attempts: Sequence[Attempt], max_reasons: int | None = None) -> str:
    """`mismatch 2, crash, +3`: most frequent reasons first, then the number of further reasons."""
    counts = sorted(metrics.count_failures(attempts).items(), key=lambda pair: (-pair[1], pair[0]))
    labels = [reason if count == 1 else f"{reason} {count}" for reason, count in counts[:max_reasons]]
    return ", ".join([*labels, *([f"+{len(counts) - len(labels)}"] if len(counts) > len(labels) else [])])


def protocol_lines(attempts: Sequence[Attempt]) -> list[tuple[str, str]]:
    """Return the verifier's protocol and the checks it skipped, each with a label."""
    names = ", ".join(sorted(metrics.protocol_names(attempts)))
    skipped_checks = [("skipped check", text) for text in metrics.list_skipped_checks(attempts)]
    return [*([("protocol", names)] if names else []), *skipped_checks]


def run_totals(results: Sequence[TaskResult], seconds: float | None, time_label: str = "time") -> list[tuple[str, str]]:
    """Return the run's main figures, each with a label."""
    attempts = [a for result in results for a in result.attempts]
    gain = metrics.quartiles(metrics.list_gains(results))
    speedups = metrics.list_speedups(results)
    count = len(results)

    def first_and_final(first: int, final: int) -> str:
        if not count:
            return formatting.UNKNOWN
        tasks = f"{final} of {formatting.format_count(count, 'task')}"
        return f"(round 1: {formatting.format_percent(first / count)}) {formatting.format_percent(final / count)}, {tasks}"

    baseline = formatting.baseline_label(metrics.baseline_names(results))
    solved_tasks = formatting.format_count(len(speedups), "solved task")
    return [
        ("compiled (CR)", first_and_final(metrics.count_compiled(results, 1), metrics.count_compiled(results))),
        ("correct (Acc)", first_and_final(metrics.count_correct(results, 1), metrics.count_correct(results))),
        ("first→best gain", format_quartiles(gain)),
        (
            f"speed compared with {baseline}",
            f"geometric mean {formatting.describe_speed(metrics.geometric_mean(speedups), baseline)}, {solved_tasks}"
            if speedups
            else formatting.UNKNOWN,
        ),
        *reevaluation_lines(results),
        *protocol_lines(attempts),
        ("attempts", f"{len(attempts)}, {sum(a.outcome.feasible for a in attempts)} of them correct"),
        ("failures", format_failures(attempts) or ("none" if attempts else formatting.UNKNOWN)),
        (time_label, formatting.format_duration(seconds)),
        ("cost", formatting.format_cost(metrics.total_usage(attempts))),
    ]


def format_quartiles(quartiles: Quartiles | None) -> str:
    """`median 2.50×, middle half 1.75× to 3.25×`."""
    if quartiles is None:
        return formatting.UNKNOWN
    low, median, high = (formatting.format_ratio(value) for value in quartiles)
    return f"median {median}, middle half {low} to {high}"


def reevaluation_lines(results: Sequence[TaskResult]) -> list[tuple[str, str]]:
    """Return the results of the re-evaluation of the best kernels, with a label; an empty list if there was none."""
    same, changed = (
        sum(1 for result in results if result.best_reevaluation and (result.original_latency_us is not None) == is_changed)
        for is_changed in (False, True)
    )
    failures = [
        f"{formatting.format_attempt(attempt.id)} ({failure_reason(result.reevaluations[attempt.id].outcome)})"
        for result in results
        for attempt in result.failed_reevaluations
    ]
    if not (same or changed or failures):
        return []
    parts = [f"{same} confirmed", *([f"{changed} with a different latency"] if changed else [])]
    return [("re-evaluation", ", ".join(parts) + (f"; failed: {', '.join(failures)}" if failures else ""))]


def failure_reason(outcome: Outcome) -> str:
    """Return the reason of a failure in one word; `correct` if there is none."""
    return outcome.failure.reason or outcome.failure.gate if outcome.failure else "correct"


def category_table(results: Sequence[TaskResult]) -> Table:
    """Return one row per category of operators."""
    columns = (
        Column("category"),
        Column("tasks", "count"),
        Column("compiled", "count", explanation="tasks with a kernel that compiles"),
        Column("correct", "count", explanation="tasks with a correct kernel"),
        Column("first→best (median)", "ratio", explanation="latency of first correct / latency of best"),
        Column(
            "speed-up (geometric mean)",
            "ratio",
            explanation=f"over {formatting.baseline_label(metrics.baseline_names(results))} (above 1×: the kernel is faster)",
        ),
    )
    rows = []
    for name, members in metrics.group_by_category(results).items():
        gain = metrics.quartiles(metrics.list_gains(members))
        speedup = metrics.geometric_mean(metrics.list_speedups(members))
        rows.append(
            (name, len(members), metrics.count_compiled(members), metrics.count_correct(members), gain.median if gain else None, speedup)
        )
    return Table("Categories", columns, tuple(rows))


def fast_p_table(results: Sequence[TaskResult]) -> Table:
    """Return fast_p: the shares of tasks whose best kernel is more than p times as fast as the baseline."""
    columns = (Column("p"), Column("of all tasks", "share"), Column("of correct tasks", "share"))
    rows = tuple((f"> {p:g}×", metrics.fast_p_share(results, p), metrics.fast_p_share(results, p, "correct")) for p in FAST_P)
    baseline = formatting.baseline_label(metrics.baseline_names(results))
    note = f"Share of tasks whose best kernel is more than p times as fast as {baseline}."
    return Table("fast_p", columns, rows, note)


def failure_table(results: Sequence[TaskResult]) -> Table:
    """Return failure reasons, how often they occurred, and on how many tasks."""
    attempts = [a for result in results for a in result.attempts]
    counts = sorted(metrics.count_failures(attempts).items(), key=lambda pair: (-pair[1], pair[0]))
    rows = tuple((reason, count, sum(reason in result.failure_counts for result in results)) for reason, count in counts)
    return Table("Why attempts failed", (Column("reason"), Column("attempts", "count"), Column("tasks", "count")), rows)
