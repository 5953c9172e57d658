"""Draws the plots of every experiment: solved operators over attempts, arms with their intervals, and statistics by round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import Any

from evokernel.experiments.axis_plots import draw_axis_plots
from evokernel.experiments.figures import PAPER_FIGURES
from evokernel.experiments.intervals import Interval
from evokernel.experiments.metrics import Metric, compiled_within, correct_within
from evokernel.experiments.results import PROTOCOLS, Results
from evokernel.experiments.success_tables import INTERVAL_NOTE
from evokernel.reports import plots, round_plots, round_stats
from evokernel.reports.metrics import TaskResult

MAX_COLUMNS, MAX_BANDS = 3, 4
PANEL_CHARACTERS, MAX_LEGEND_CHARACTERS = 26, 34
Points = Mapping[str, Sequence[Interval | None]]
ByArm = Mapping[str, Sequence[TaskResult]]


def draw_plots(results: Results, folder: Path) -> list[plots.Plot]:
    """Write every plot that has data to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    drawings = [*draw_axis_plots(results, folder), *draw_group_plots(results, folder), *draw_round_plots(results, folder)]
    figure = PAPER_FIGURES.get(results.spec.kind)
    drawings += figure.draw_plots(results.first_seed_results(), folder) if figure else []
    return [plot for plot in drawings if plot]


def draw_group_plots(results: Results, folder: Path) -> Iterator[plots.Plot | None]:
    """Draw solved operators over attempts, and rates with intervals, for each group."""
    for group in results.groups:
        arms = results.arm_results(group)
        longest = max((round_stats.max_attempts(task_results) for seeds in arms.values() for task_results in seeds.values()), default=0)
        panels = {"compile": success_curve(arms, compiled_within, longest), "are correct": success_curve(arms, correct_within, longest)}
        title = f"Operators with a kernel that compiles, and with a correct kernel: {group}"
        height = 3.0 + 0.2 * len(arms)
        note = f"Bands: {INTERVAL_NOTE.partition(': ')[2]}"
        if len(arms) > MAX_BANDS:
            note = "The next plot and the table show the intervals."
        if longest > 1:
            yield plots.save_plot(folder, f"curve-{group}", title, note, 7.2, height, curves_drawer(panels))
        rates = plotted_rates(results)
        intervals = {arm: [metric.mean_interval(seeds) for metric in rates] for arm, seeds in arms.items()}
        names = [metric.name for metric in rates]
        height = 1.3 + (0.16 + 0.2 * len(names)) * len(intervals)
        yield plots.save_plot(
            folder,
            f"rates-{group}",
            f"Share of solved operators by arm: {group}",
            f"Bars: {INTERVAL_NOTE.partition(': ')[2]}",
            6.4,
            height,
            dots_drawer(intervals, names),
        )


def plotted_rates(results: Results) -> list[Metric]:
    """Return Acc after round 1, at the end, and under the other protocol."""
    rates = [metric for metric in results.rate_metrics() if metric.name.startswith("Acc") and metric.name != "Acc, not vacuous"]
    labels = {"Acc, round 1": f"round 1, {PROTOCOLS[results.loop_protocol]}", "Acc": f"final, {PROTOCOLS[results.loop_protocol]}"}
    return [metric._replace(name=labels.get(metric.name, f"final, {metric.name.removeprefix('Acc, ')}")) for metric in rates]


def success_curve(arms: Mapping[str, Any], metric_within: Callable[[int], Any], longest: int) -> Points:
    """Return each arm's share of operators after 1, 2, ... attempts, with intervals."""
    return {
        arm: [Metric("", metric_within(rounds), "share").mean_interval(seeds) for rounds in range(1, longest + 1)]
        for arm, seeds in arms.items()
    }


def curves_drawer(panels: Mapping[str, Points]) -> plots.Draw:
    """Return a function that draws one panel per metric, with a line and a band for each arm."""

    def draw(figure: Any, axes: Any) -> bool:
        axes.remove()
        grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for panel, (what, points) in zip(grid, panels.items()):
            for order, intervals in enumerate(points.values()):
                pairs = [(at, point) for at, point in enumerate(intervals, start=1) if point]
                at, style = [number for number, _ in pairs], plots.line_style(order, len(pairs))
                lows, highs = ([100 * getattr(point, side) for _, point in pairs] for side in ("low", "high"))
                if len(points) <= MAX_BANDS:
                    panel.fill_between(at, lows, highs, color=style["color"], alpha=0.15, linewidth=0)
                panel.plot(at, [100 * point.mean for _, point in pairs], **style)
            panel.set_ylim(-2, 102)
            panel.set_title(f"operators that {what}, %", size=9)
            panel.set_xlabel("attempts per operator")
            plots.use_integer_ticks(panel.xaxis)
        points = next(iter(panels.values()))
        plots.add_legend(figure, grid[0].get_lines(), [shorten_name(arm) for arm in points])
        return any(intervals for intervals in points.values())

    return draw


def dots_drawer(intervals: Points, names: Sequence[str]) -> plots.Draw:
    """Return a function that draws a row for each arm, with a mark and its interval for each metric."""

    def draw(figure: Any, axes: Any) -> bool:
        handles: dict[str, Any] = {}
        for row, points in enumerate(reversed(list(intervals.values()))):
            for order, (name, point) in enumerate(zip(names, points)):
                if point:
                    height = row + 0.5 * (len(names) / 2 - order - 0.5) / len(names) * 1.2
                    style = {"color": (plots.GREY, plots.BLUE, plots.ORANGE)[order % 3], "marker": "oDs"[order % 3]}
                    errors = [[100 * (point.mean - point.low)], [100 * (point.high - point.mean)]]
                    hollow = {"markerfacecolor": "none"} if order != 1 else {}
                    handles[name] = axes.errorbar(
                        [100 * point.mean], [height], xerr=errors, markersize=5, capsize=2, linewidth=1, linestyle="", **style, **hollow
                    )
        axes.set_yticks(range(len(intervals)), [fill(arm, PANEL_CHARACTERS) for arm in reversed(list(intervals))])
        axes.set_ylim(-0.6, len(intervals) - 0.4)
        axes.set_xlim(-2, 102)
        axes.set_xlabel("operators with a correct kernel, %")
        plots.add_legend(figure, list(handles.values()), list(handles))
        return bool(handles)

    return draw


def draw_round_plots(results: Results, folder: Path) -> Iterator[plots.Plot | None]:
    """Draw failures, roles, values and costs by round; a panel for each arm, over all seeds."""
    arms = {
        arm: task_results for arm, task_results in results.reported_results().items() if any(result.attempts for result in task_results)
    }
    all_results = [result for task_results in arms.values() for result in task_results]
    reasons = round_plots.common_reasons(all_results)
    height = 0.9 + 2.1 * ceil(len(arms) / MAX_COLUMNS)

    def save(name: str, title: str, note: str, draw: Callable[[Any, Sequence[TaskResult]], bool]) -> plots.Plot | None:
        return plots.save_plot(folder, name, title, note, 7.2, height, panels_drawer(arms, draw)) if arms else None

    note = "Share of each round's attempts that failed, by reason, over all seeds. Round N: the N-th attempts of all operators."
    yield save(
        "failures",
        "Why attempts failed",
        note,
        lambda axes, task_results: round_plots.draw_stacked_bars(axes, round_plots.stack_failures(task_results, reasons), "failed, %"),
    )
    roles = round_plots.stack_roles(all_results).names
    note = "Share of the memory items in each round's prompts, by the role in which the prompt shows them."
    stack = partial(round_plots.stack_roles, names=roles)
    if roles:
        yield save(
            "roles",
            "Memory items shown",
            note,
            lambda axes, task_results: round_plots.draw_stacked_bars(axes, stack(task_results), "shown, %"),
        )
    note = "Q (learned value) of the memory items in each round's prompts, when they were shown. Line: median; band: middle half."
    has_values = any(ref.q is not None for result in all_results for attempt in result.attempts for ref in attempt.shown_items)
    if has_values:
        yield save("value", "Value of shown memory items", note, round_plots.draw_values)
    note = (
        "Cumulative over attempts, mean over seeds: money if every model call has a price, otherwise tokens, otherwise verification time."
    )
    yield plots.save_plot(folder, "cost", "Cumulative cost", note, 5.6, 3.2 + 0.2 * len(arms), lambda f, a: draw_costs(f, a, arms))


def draw_costs(figure: Any, axes: Any, arms: ByArm) -> bool:
    """Draw the cumulative cost of each arm, with a legend."""
    if not round_plots.draw_costs(axes, arms):
        return False
    plots.add_legend(figure, axes.get_lines(), [shorten_name(arm) for arm in arms])
    return True


def panels_drawer(arms: ByArm, draw_one: Callable[[Any, Sequence[TaskResult]], bool]) -> plots.Draw:
    """Return a function that draws one panel per arm with common axes and one legend."""

    def draw(figure: Any, axes: Any) -> bool:
        axes.remove()
        columns = min(len(arms), MAX_COLUMNS)
        grid = figure.subplots(ceil(len(arms) / columns), columns, sharex=True, sharey=True, squeeze=False)
        panels = [panel for row in grid for panel in row]
        handles: dict[str, Any] = {}
        has_data = False
        for number, (panel, (arm, task_results)) in enumerate(zip(panels, arms.items())):
            has_data |= draw_one(panel, task_results)
            panel.set_title(shorten_name(arm, PANEL_CHARACTERS), size=9)
            panel.set_ylabel(panel.get_ylabel() if number % columns == 0 else "")
            panel.set_xlabel("attempts per operator" if number + columns >= len(arms) else "")
            panel.tick_params(labelbottom=number + columns >= len(arms))
            handles |= {name: handle for handle, name in zip(*panel.get_legend_handles_labels())}
        for panel in panels[len(arms) :]:
            panel.set_visible(False)
        plots.add_legend(figure, list(handles.values()), list(handles))
        return has_data

    return draw


def shorten_name(name: str, max_characters: int = MAX_LEGEND_CHARACTERS) -> str:
    """Shorten a name to its beginning and its end."""
    half = max_characters // 2
    return name if len(name) <= max_characters else f"{name[: half - 1]}…{name[-half:]}"
