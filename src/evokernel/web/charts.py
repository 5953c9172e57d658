"""The charts of one run, and the chart that compares several runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from evokernel.core.records import Attempt
from evokernel.reports import formatting, metrics, round_plots, round_stats
from evokernel.reports.metrics import TaskResult
from evokernel.reports.tables import Column, Table
from evokernel.web import svg
from evokernel.web.summary import MEASURES, RunRow
from evokernel.web.svg import Series

ATTEMPTS_AXIS = "attempts per task"
MAX_ROWS = 40


@dataclass(frozen=True)
class Chart:
    """A drawing with its title and note, and its numbers as a table for readers who cannot see it."""

    title: str
    note: str
    svg: Markup
    legend: Markup | None = None
    table: Table | None = None


def run_charts(results: Sequence[TaskResult], attempts: Sequence[Attempt]) -> list[Chart]:
    """Every chart that the run has data for."""
    charts = (
        success_chart(results),
        reward_chart(results),
        failure_chart(results),
        category_chart(results),
        cost_chart(results),
        value_chart(results),
        pace_chart(attempts),
    )
    return [chart for chart in charts if chart]


def chart_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[float | str | None]]) -> Table:
    """The numbers of a chart, thinned to at most `MAX_ROWS` rows."""
    shown_rows = [rows[n] for n in svg.spaced_indices(len(rows), MAX_ROWS)]
    cells = tuple(tuple(round(cell, 3) if isinstance(cell, float) else cell for cell in row) for row in shown_rows)
    return Table(title, tuple(Column(name, "count" if order else "text") for order, name in enumerate(columns)), cells)


def success_chart(results: Sequence[TaskResult]) -> Chart | None:
    """Cumulative share of tasks that compile and that are correct."""
    curve = metrics.cumulative_counts(results)
    series = [
        Series("compiled (CR)", [(n, 100 * compiled / len(results)) for n, compiled, _ in curve], 1),
        Series("correct (Acc)", [(n, 100 * correct / len(results)) for n, _, correct in curve], 0),
    ]
    chart = svg.draw_line_chart(
        "Share of tasks compiled and correct after N attempts per task", series, ATTEMPTS_AXIS, "tasks, %", (0, 104)
    )
    if chart is None:
        return None
    rows = [(str(n), compiled, correct) for n, compiled, correct in curve]
    note = f"Share of {formatting.format_count(len(results), 'task')} with a candidate that compiles (CR) and with a correct kernel (Acc)."
    return Chart("Compiled and correct", note, chart, series_legend(series), chart_table("", ("attempts", "compiled", "correct"), rows))


def series_legend(series: Sequence[Series]) -> Markup:
    """A legend with one entry for each series that has points."""
    return svg.draw_legend([(one_series.css_class, one_series.name) for one_series in series if one_series.points])


def reward_chart(results: Sequence[TaskResult]) -> Chart | None:
    """Mean reward of each round, with the middle half of the rewards shaded."""
    round_quartiles = []
    for number, attempts in enumerate(round_stats.attempts_by_round(results), start=1):
        rewards = [attempt.reward for attempt in attempts]
        if quartiles := metrics.quartiles(rewards):
            round_quartiles.append((number, sum(rewards) / len(rewards), quartiles))
    series = Series(
        "mean",
        [(n, mean) for n, mean, _ in round_quartiles],
        0,
        [(n, quartiles.low, quartiles.high) for n, _, quartiles in round_quartiles],
    )
    chart = svg.draw_line_chart("Mean reward by round", [series], ATTEMPTS_AXIS, "reward", (-1.05, 1.05))
    if chart is None:
        return None
    rows = [(str(n), mean, quartiles.low, quartiles.high) for n, mean, quartiles in round_quartiles]
    columns = ("attempts", "mean", "lower quartile", "upper quartile")
    return Chart(
        "Rewards",
        "Mean reward of the attempts of a round; the shaded band is the middle half.",
        chart,
        None,
        chart_table("", columns, rows),
    )


def failure_chart(results: Sequence[TaskResult]) -> Chart | None:
    """Share of attempts that failed, by reason and round."""
    parts = round_plots.stack_failures(results)
    shares = [[100 * row[name] / total if total else 0.0 for name in parts.names] for row, total in zip(parts.rounds, parts.totals)]
    chart = svg.draw_stacked_bars("Share of attempts that failed, by reason and round", parts.names, shares, ATTEMPTS_AXIS, "attempts, %")
    if chart is None:
        return None
    legend = svg.draw_legend([(f"fill f{order % svg.COLOURS}", name) for order, name in enumerate(parts.names)])
    rows: list[list[float | str | None]] = [[str(n), *(row[name] for name in parts.names)] for n, row in enumerate(parts.rounds, start=1)]
    return Chart(
        "Why attempts failed", "Share of the attempts of a round.", chart, legend, chart_table("", ("attempts", *parts.names), rows)
    )


def category_chart(results: Sequence[TaskResult]) -> Chart | None:
    """Tasks compiled and correct in each category."""
    if not results:
        return None
    rows = [
        (
            name,
            float(len(members)),
            [("fill f1", float(metrics.count_compiled(members))), ("fill f0", float(metrics.count_correct(members)))],
        )
        for name, members in metrics.group_by_category(results).items()
    ][:MAX_ROWS]
    chart = svg.draw_nested_bars("Tasks by category: compiled and correct", rows)
    return Chart(
        "By category",
        "Number of tasks: correct / compiled of all.",
        chart,
        svg.draw_legend([("fill f0", "correct"), ("fill f1", "compiled")]),
    )


def cost_chart(results: Sequence[TaskResult]) -> Chart | None:
    """Cumulative cost of the attempts."""
    unit = round_stats.choose_cost_unit(attempt for result in results for attempt in result.attempts)
    if unit is None:
        return None
    totals = round_stats.cumulative_costs(results, unit)
    series = Series(unit.label, list(enumerate(totals, start=1)), 0)
    chart = svg.draw_line_chart(
        "Cost over attempts", [series], ATTEMPTS_AXIS, unit.label.partition(" per ")[0], (0, max(totals) * 1.06 or 1)
    )
    note = f"{unit.label[0].upper()}{unit.label[1:]}, cumulative over attempts."
    return (
        Chart("Cost", note, chart, None, chart_table("", ("attempts", unit.label), list(zip(map(str, range(1, len(totals) + 1)), totals))))
        if chart
        else None
    )


def value_chart(results: Sequence[TaskResult]) -> Chart | None:
    """Q value of the memory items shown in each round, at that moment: whether the policy learns to choose."""
    series = []
    for order, (stage, name, *_) in enumerate(round_plots.STAGES):
        quartiles_by_round = round_stats.value_quartiles_by_round(results, stage)
        series.append(
            Series(name, [(n, s.median) for n, s in quartiles_by_round], order, [(n, s.low, s.high) for n, s in quartiles_by_round])
        )
    chart = svg.draw_line_chart("Value of the memory items in the prompts, by round", series, ATTEMPTS_AXIS, "value Q")
    note = "Q of the memory items in the prompts of a round, at that time: median and middle half."
    return Chart("Value of the memory items in the prompts", note, chart, series_legend(series)) if chart else None


def pace_chart(attempts: Sequence[Attempt]) -> Chart | None:
    """Attempts finished, and correct attempts, over wall time."""
    timestamps = sorted((attempt.finished_at, attempt.outcome.feasible) for attempt in attempts if attempt.finished_at > 0)
    if len(timestamps) < 2 or timestamps[-1][0] <= timestamps[0][0]:
        return None
    unit, name = (3600, "hours") if timestamps[-1][0] - timestamps[0][0] > 7200 else (60, "minutes")
    started_at, correct_count = timestamps[0][0], 0
    attempt_points, correct_points = [], []
    for number, (moment, correct) in enumerate(timestamps, start=1):
        correct_count += correct
        attempt_points.append(((moment - started_at) / unit, float(number)))
        correct_points.append(((moment - started_at) / unit, float(correct_count)))
    series = [Series("attempts", attempt_points, 2), Series("correct", correct_points, 0)]
    chart = svg.draw_line_chart("Attempts over time", series, f"{name} since the first attempt", "attempts", (0, len(timestamps) * 1.06))
    return Chart("Pace", "Finished attempts, and correct attempts among them.", chart, series_legend(series)) if chart else None


def comparison_chart(rows: Sequence[RunRow], measure: str) -> Chart | None:
    """Several runs compared by one measure."""
    series = [Series(row.key, row.curves.get(measure, []), order) for order, row in enumerate(rows)]
    label = MEASURES[measure]
    units = {row.cost_unit for row in rows if row.cost_unit}
    if measure == "spent":
        label = units.pop() if len(units) == 1 else "cost, in different units"
    spans = {"correct": (0.0, 104.0), "compiled": (0.0, 104.0), "reward": (-1.05, 1.05)}
    chart = svg.draw_line_chart(f"Comparison of runs: {label}", series, ATTEMPTS_AXIS, label.partition(" per ")[0], spans.get(measure))
    if chart is None:
        return None
    longest = max(len(line.points) for line in series)
    values = [dict(line.points) for line in series]
    cells = [(str(n), *(points.get(n) for points in values)) for n in range(1, longest + 1)]
    return Chart(
        "Comparison of runs", label, chart, series_legend(series), chart_table("", ("attempts", *(row.key for row in rows)), cells)
    )
