"""Tables as data: columns that say what their figures are, rows of plain values. Whoever shows them does the drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from evokernel.core.labels import EXPLAINED
from evokernel.core.records import Attempt, Outcome
from evokernel.reports import formatting, metrics
from evokernel.reports.metrics import FAST_P, Tried

Cell = str | int | float | None
AGAIN = "judged again when the run was over, in brackets the first time where it was another"
Unit = Literal["text", "count", "us", "ratio", "share", "value"]


@dataclass(frozen=True)
class Column:
    """A heading, and what stands under it."""

    name: str
    unit: Unit = "text"
    means: str = ""
    """What to say of it below the table."""
    spare: int = 0
    """Where there is no room for all columns, the one with the largest is left out first; 0 stays."""

    @property
    def right(self) -> bool:
        """Whether figures line up on the right."""
        return self.unit != "text"

    def show(self, cell: Cell) -> str:
        """One cell as people read it."""
        if cell is None:
            return formatting.UNKNOWN
        if isinstance(cell, str):
            return cell
        match self.unit:
            case "us":
                return formatting.latency(cell)
            case "ratio":
                return formatting.ratio(cell)
            case "share":
                return formatting.percent(cell)
            case "value":
                return f"{cell:+.2f}"
        return str(cell)


@dataclass(frozen=True)
class Table:
    """A title, columns, rows, and a note on the whole."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def shown(self) -> list[list[str]]:
        """Every cell as text."""
        return [[column.show(cell) for column, cell in zip(self.columns, row)] for row in self.rows]

    @property
    def caption(self) -> str:
        """The note, then what the columns mean."""
        meanings = "; ".join(f"{column.name}: {column.means}" for column in self.columns if column.means)
        return " ".join(text for text in (self.note, f"{meanings}." if meanings else "") if text)

    def narrower(self) -> Table | None:
        """Without the column that can be spared first; None when all must stay."""
        place = max(range(len(self.columns)), key=lambda n: self.columns[n].spare)
        if not self.columns[place].spare:
            return None
        rows = tuple(row[:place] + row[place + 1 :] for row in self.rows)
        return replace(self, columns=self.columns[:place] + self.columns[place + 1 :], rows=rows)


def short_names(ids: Sequence[str]) -> dict[str, str]:
    """Task names without their suite, where all come from the same one."""
    one_suite = len({name.rpartition("/")[0] for name in ids}) == 1
    return {name: name.rpartition("/")[2] if one_suite else name for name in ids}


def operators(found: Sequence[Tried]) -> Table:
    """One row per task: when it was first solved, how far it got, what holds it back, what went wrong."""
    names = short_names([tried.task.id for tried in found])
    base, names_of_base = heading(found), metrics.baselines(found)
    columns = (
        Column("task"),
        Column("round", "count", means="the attempt that was first correct", spare=3),
        Column("first correct", "us", spare=2),
        Column("best", "us", means=AGAIN if any(tried.final for tried in found) else ""),
        Column(base, "us", means="; ".join(EXPLAINED[name] for name in sorted(names_of_base) if name in EXPLAINED)),
        Column("speed-up", "ratio", means=f"{base} over best"),
        Column("first→best", "ratio", spare=1),
        Column("floor", "us", means="the task's bytes and operations at the device's ceilings"),
        Column("bound by", means="what holds the best kernel back"),
        Column("gates", means="attempts that passed all", spare=4),
        Column("failures"),
    )
    rows = tuple(operator_row(tried, names[tried.task.id]) for tried in found)
    return Table(
        "Operators", columns, rows, f"Times: {formatting.clock_label(metrics.clocks(a for tried in found for a in tried.attempts))}."
    )


def heading(found: Sequence[Tried]) -> str:
    """The baseline as a column is called; without its name where several are mixed or none is known."""
    names = metrics.baselines(found)
    return formatting.baseline_label(names) if len(names) == 1 else "baseline"


def operator_row(tried: Tried, name: str) -> tuple[Cell, ...]:
    """The cells of `operators` for one task."""
    first = tried.first
    return (
        name,
        tried.first_round,
        first.outcome.latency_us if first else None,
        best_latency(tried),
        tried.baseline_us,
        tried.speedup,
        tried.gain,
        tried.floor_us,
        tried.bottleneck,
        f"{len(tried.correct)}/{len(tried.attempts)}",
        reasons(tried.attempts, most=3),
    )


def best_latency(tried: Tried) -> Cell:
    """Of the best kernel; beside it what was measured first, where the two differ by more than noise."""
    found = tried.outcome.latency_us if tried.outcome else None
    return found if tried.moved_us is None else f"{formatting.latency(found)} (first {formatting.latency(tried.moved_us)})"


def reasons(attempts: Sequence[Attempt], most: int | None = None) -> str:
    """`mismatch 2, crash, +3`: most frequent first, and how many further kinds are left out."""
    counted = sorted(metrics.failures(attempts).items(), key=lambda pair: (-pair[1], pair[0]))
    named = [reason if count == 1 else f"{reason} {count}" for reason, count in counted[:most]]
    return ", ".join([*named, *([f"+{len(counted) - len(named)}"] if len(counted) > len(named) else [])])


def judged_by(attempts: Sequence[Attempt]) -> list[tuple[str, str]]:
    """The protocol, and what a verdict had to do without."""
    known = ", ".join(sorted(metrics.protocols(attempts)))
    return [*([("judged", f"protocol {known}")] if known else []), *(("without", text) for text in metrics.lacking(attempts))]


def totals(found: Sequence[Tried], seconds: float | None, time_label: str = "time") -> list[tuple[str, str]]:
    """The run in a few lines: label and figure."""
    attempts = [a for tried in found for a in tried.attempts]
    gain = metrics.spread(metrics.gains(found))
    speedups = metrics.speedups(found)
    count = len(found)

    def one_then_all(first: int, last: int) -> str:
        return (
            f"(round 1: {formatting.percent(first / count)}) {formatting.percent(last / count)}, {last} of {count} tasks"
            if count
            else formatting.UNKNOWN
        )

    return [
        ("compiled (CR)", one_then_all(metrics.compiled(found, 1), metrics.compiled(found))),
        ("correct (Acc)", one_then_all(metrics.feasible(found, 1), metrics.feasible(found))),
        (
            "first→best gain",
            f"median {formatting.ratio(gain.median)}, middle half {formatting.ratio(gain.low)} to {formatting.ratio(gain.high)}"
            if gain
            else formatting.UNKNOWN,
        ),
        (
            f"speed-up over {formatting.baseline_label(metrics.baselines(found))}",
            f"geometric mean {formatting.ratio(metrics.geomean(speedups))} over {len(speedups)} solved tasks"
            if speedups
            else formatting.UNKNOWN,
        ),
        *judged_again(found),
        *judged_by(attempts),
        ("attempts", f"{len(attempts)}, {sum(a.outcome.feasible for a in attempts)} of them correct"),
        ("failures", reasons(attempts) or "none"),
        (time_label, formatting.duration(seconds)),
        ("cost", formatting.cost(metrics.usage(attempts))),
    ]


def judged_again(found: Sequence[Tried]) -> list[tuple[str, str]]:
    """How the bests fared when they were judged once more; nothing where none was."""
    held, moved = (sum(1 for tried in found if tried.final and (tried.moved_us is not None) == is_moved) for is_moved in (False, True))
    fallen = [f"{attempt.id} ({why(tried.finals[attempt.id].outcome)})" for tried in found for attempt in tried.fallen]
    if not (held or moved or fallen):
        return []
    parts = [f"{held} as before", *([f"{moved} with another time"] if moved else [])]
    return [("judged again", ", ".join(parts) + (f"; did not hold up: {', '.join(fallen)}" if fallen else ""))]


def why(outcome: Outcome) -> str:
    """What a kernel failed by, in one word."""
    return outcome.failure.reason or outcome.failure.gate if outcome.failure else "correct"


def categories(found: Sequence[Tried]) -> Table:
    """One row per category of operators."""
    columns = (
        Column("category"),
        Column("tasks", "count"),
        Column("compiled", "count"),
        Column("correct", "count"),
        Column("first→best (median)", "ratio"),
        Column("speed-up (geomean)", "ratio"),
    )
    rows = []
    for name, members in metrics.categories(found).items():
        gain = metrics.spread(metrics.gains(members))
        speedup = metrics.geomean(metrics.speedups(members))
        rows.append((name, len(members), metrics.compiled(members), metrics.feasible(members), gain.median if gain else None, speedup))
    return Table("Categories", columns, tuple(rows))


def fast(found: Sequence[Tried]) -> Table:
    """fast_p: shares of tasks more than p times as fast as the baseline."""
    columns = (Column("p"), Column("of all tasks", "share"), Column("of correct tasks", "share"))
    rows = tuple((f"> {p:g}×", metrics.fast_p(found, p), metrics.fast_p(found, p, "correct")) for p in FAST_P)
    return Table(f"Faster than p times {formatting.baseline_label(metrics.baselines(found))} (fast_p)", columns, rows)


def failures(found: Sequence[Tried]) -> Table:
    """Reasons, how often, and on how many tasks."""
    attempts = [a for tried in found for a in tried.attempts]
    counted = sorted(metrics.failures(attempts).items(), key=lambda pair: (-pair[1], pair[0]))
    rows = tuple((reason, count, sum(reason in tried.failures for tried in found)) for reason, count in counted)
    return Table("Why attempts failed", (Column("reason"), Column("attempts", "count"), Column("tasks", "count")), rows)
