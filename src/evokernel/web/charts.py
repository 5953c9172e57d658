"""The charts of a run, and of several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from evokernel.core.records import Attempt
from evokernel.reports import metrics, round_plots, round_stats
from evokernel.reports.metrics import Tried
from evokernel.reports.tables import Column, Table
from evokernel.web import svg
from evokernel.web.summary import MEASURES, Row
from evokernel.web.svg import Line

ROUNDS = "attempts per task"
MOST_ROWS = 40


@dataclass(frozen=True)
class Chart:
    """A drawing with its words, and its figures as a table for who does not see it."""

    title: str
    note: str
    svg: Markup
    legend: Markup | None = None
    table: Table | None = None


def of_run(found: Sequence[Tried], attempts: Sequence[Attempt]) -> list[Chart]:
    """Every chart there is data for."""
    made = (solved(found), rewards(found), failures(found), categories(found), spent(found), worth(found), over_hours(attempts))
    return [chart for chart in made if chart]


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[float | str | None]]) -> Table:
    """Some of the figures of a chart: not more rows than people read."""
    shown = [rows[n] for n in svg.spread_out(len(rows), MOST_ROWS)]
    cells = tuple(tuple(round(cell, 3) if isinstance(cell, float) else cell for cell in row) for row in shown)
    return Table(title, tuple(Column(name, "count" if order else "text") for order, name in enumerate(columns)), cells)


def solved(found: Sequence[Tried]) -> Chart | None:
    """Cumulative compilation and correctness."""
    curve = metrics.curve(found)
    lines = [
        Line("compiled (CR)", [(n, 100 * built / len(found)) for n, built, _ in curve], 1),
        Line("correct (Acc)", [(n, 100 * right / len(found)) for n, _, right in curve], 0),
    ]
    drawn = svg.lines("Share of tasks compiled and correct after so many attempts", lines, ROUNDS, "tasks, %", (0, 104))
    if drawn is None:
        return None
    rows = [(str(n), built, right) for n, built, right in curve]
    note = f"Share of {len(found)} tasks with a kernel that compiles, and with one that is correct."
    return Chart("Compiled and correct", note, drawn, named(lines), table("", ("attempts", "compiled", "correct"), rows))


def named(lines: Sequence[Line]) -> Markup:
    return svg.legend([(line.class_, line.name) for line in lines if line.points])


def rewards(found: Sequence[Tried]) -> Chart | None:
    """The mean reward of a round, and the middle half around it."""
    spreads = []
    for number, made in enumerate(round_stats.by_round(found), start=1):
        earned = [attempt.reward for attempt in made]
        if spread := metrics.spread(earned):
            spreads.append((number, sum(earned) / len(earned), spread))
    line = Line("mean", [(n, mean) for n, mean, _ in spreads], 0, [(n, spread.low, spread.high) for n, _, spread in spreads])
    drawn = svg.lines("Mean reward by round", [line], ROUNDS, "reward", (-1.05, 1.05))
    if drawn is None:
        return None
    rows = [(str(n), mean, spread.low, spread.high) for n, mean, spread in spreads]
    columns = ("attempts", "mean", "lower quartile", "upper quartile")
    return Chart("Rewards", "Mean of a round's attempts; shaded, the middle half of them.", drawn, None, table("", columns, rows))


def failures(found: Sequence[Tried]) -> Chart | None:
    """Why attempts failed, round by round."""
    parts = round_plots.failures(found)
    shares = [[100 * row[name] / whole if whole else 0.0 for name in parts.names] for row, whole in zip(parts.rounds, parts.wholes)]
    drawn = svg.stack("Share of attempts that failed, by reason and round", parts.names, shares, ROUNDS, "attempts, %")
    if drawn is None:
        return None
    entries = svg.legend([(f"fill f{order % svg.COLOURS}", name) for order, name in enumerate(parts.names)])
    rows: list[list[float | str | None]] = [[str(n), *(row[name] for name in parts.names)] for n, row in enumerate(parts.rounds, start=1)]
    return Chart("Why attempts failed", "Share of a round's attempts.", drawn, entries, table("", ("attempts", *parts.names), rows))


def categories(found: Sequence[Tried]) -> Chart | None:
    """Tasks compiled and correct in each category."""
    if not found:
        return None
    rows = [
        (name, float(len(members)), [("fill f1", float(metrics.compiled(members))), ("fill f0", float(metrics.feasible(members)))])
        for name, members in metrics.categories(found).items()
    ][:MOST_ROWS]
    drawn = svg.bars("Tasks by category: compiled and correct", rows)
    return Chart("By category", "Tasks correct / compiled of all.", drawn, svg.legend([("fill f0", "correct"), ("fill f1", "compiled")]))


def spent(found: Sequence[Tried]) -> Chart | None:
    """What attempts took, added up."""
    counted = round_stats.spending(attempt for tried in found for attempt in tried.attempts)
    if counted is None:
        return None
    path = round_stats.spent(found, counted)
    line = Line(counted.label, list(enumerate(path, start=1)), 0)
    drawn = svg.lines("Cost over attempts", [line], ROUNDS, counted.label.partition(" per ")[0], (0, max(path) * 1.06 or 1))
    note = f"{counted.label[0].upper()}{counted.label[1:]}, added up over attempts."
    return (
        Chart("Cost", note, drawn, None, table("", ("attempts", counted.label), list(zip(map(str, range(1, len(path) + 1)), path))))
        if drawn
        else None
    )


def worth(found: Sequence[Tried]) -> Chart | None:
    """What shown memories were worth at that moment: whether choosing learns."""
    lines = []
    for order, (stage, name, *_) in enumerate(round_plots.STAGES):
        path = round_stats.worth(found, stage)
        lines.append(Line(name, [(n, s.median) for n, s in path], order, [(n, s.low, s.high) for n, s in path]))
    drawn = svg.lines("Value of what was shown, by round", lines, ROUNDS, "value Q")
    note = "Q of the memories shown in a round, at that moment: the middle, and the middle half."
    return Chart("Value of what was shown", note, drawn, named(lines)) if drawn else None


def over_hours(attempts: Sequence[Attempt]) -> Chart | None:
    """Attempts made and correct over the time on the wall."""
    timed = sorted((attempt.finished_at, attempt.outcome.feasible) for attempt in attempts if attempt.finished_at > 0)
    if len(timed) < 2 or timed[-1][0] <= timed[0][0]:
        return None
    unit, name = (3600, "hours") if timed[-1][0] - timed[0][0] > 7200 else (60, "minutes")
    begin, right = timed[0][0], 0
    made_path, right_path = [], []
    for number, (moment, correct) in enumerate(timed, start=1):
        right += correct
        made_path.append(((moment - begin) / unit, float(number)))
        right_path.append(((moment - begin) / unit, float(right)))
    lines = [Line("attempts", made_path, 2), Line("correct", right_path, 0)]
    drawn = svg.lines("Attempts over time", lines, f"{name} since the first attempt", "attempts", (0, len(timed) * 1.06))
    return Chart("Pace", "Attempts made, and correct ones among them.", drawn, named(lines)) if drawn else None


def compared(rows: Sequence[Row], by: str) -> Chart | None:
    """Several runs by one measure."""
    lines = [Line(row.key, row.paths.get(by, []), order) for order, row in enumerate(rows)]
    label = MEASURES[by]
    units = {row.spent_in for row in rows if row.spent_in}
    if by == "spent":
        label = units.pop() if len(units) == 1 else "spent, in different units"
    spans = {"correct": (0.0, 104.0), "compiled": (0.0, 104.0), "reward": (-1.05, 1.05)}
    drawn = svg.lines(f"Runs compared: {label}", lines, ROUNDS, label.partition(" per ")[0], spans.get(by))
    if drawn is None:
        return None
    longest = max(len(line.points) for line in lines)
    values = [dict(line.points) for line in lines]
    cells = [(str(n), *(found.get(n) for found in values)) for n in range(1, longest + 1)]
    return Chart("Runs compared", label, drawn, named(lines), table("", ("attempts", *(row.key for row in rows)), cells))
