"""Plots that every experiment has: solved over attempts, arms with their intervals, and what happened round by round in every arm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import Any

from evokernel.experiments.figures import LAYOUTS
from evokernel.experiments.intervals import Interval
from evokernel.experiments.metrics import Measure, compiled, feasible
from evokernel.experiments.results import PROTOCOLS, Results
from evokernel.experiments.success_tables import SURE
from evokernel.reports import plots, round_plots, round_stats
from evokernel.reports.metrics import Tried

MOST_COLUMNS, MOST_BANDS = 3, 4
PANEL_CHARACTERS, LONGEST_NAME = 26, 34
Points = Mapping[str, Sequence[Interval | None]]
ByArm = Mapping[str, Sequence[Tried]]


def drawings(results: Results, folder: Path) -> list[plots.Plot]:
    """Those that there is something to show in, written to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [*by_group(results, folder), *by_round(results, folder)]
    made += LAYOUTS[results.plan.kind].drawings(results.first(), folder) if results.plan.kind in LAYOUTS else []
    return [plot for plot in made if plot]


def by_group(results: Results, folder: Path) -> Iterator[plots.Plot | None]:
    for group in results.groups:
        arms = results.arms(group)
        longest = max((round_stats.longest(tries) for seeds in arms.values() for tries in seeds.values()), default=0)
        panels = {"compile": curve(arms, compiled, longest), "are correct": curve(arms, feasible, longest)}
        title = f"Operators with a kernel that compiles, and with a correct one: {group}"
        height = 3.0 + 0.2 * len(arms)
        note = f"Bands: {SURE.partition(': ')[2]}" if len(arms) <= MOST_BANDS else "Intervals are in the plot beside and in the table."
        if longest > 1:
            yield plots.save(folder, f"curve-{group}", title, note, 7.2, height, curves(panels))
        measures = shown_rates(results)
        found = {arm: [measure.of(seeds) for measure in measures] for arm, seeds in arms.items()}
        names = [measure.name for measure in measures]
        height = 1.3 + (0.16 + 0.2 * len(names)) * len(found)
        yield plots.save(
            folder,
            f"rates-{group}",
            f"Arms beside each other: {group}",
            f"Bars: {SURE.partition(': ')[2]}",
            6.4,
            height,
            dots(found, names),
        )


def shown_rates(results: Results) -> list[Measure]:
    """Acc at the first attempt, at the end, and by the other protocol."""
    known = {measure.name: measure for measure in results.rates()}
    accs = {name: measure for name, measure in known.items() if name.startswith("Acc") and name != "Acc, not vacuous"}
    ends = {"Acc, round 1": f"round 1, {PROTOCOLS[results.loop]}", "Acc": f"final, {PROTOCOLS[results.loop]}"}
    return [measure._replace(name=ends.get(name, f"final, {name.removeprefix('Acc, ')}")) for name, measure in accs.items()]


def curve(arms: Mapping[str, Any], figure: Callable[[int], Any], longest: int) -> Points:
    return {arm: [Measure("", figure(at), "share").of(seeds) for at in range(1, longest + 1)] for arm, seeds in arms.items()}


def curves(panels: Mapping[str, Points]) -> plots.Draw:
    """A panel each; a line and a band for each arm, lines differ in shape, too."""

    def draw(figure: Any, axes: Any) -> bool:
        axes.remove()
        grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for place, (what, points) in zip(grid, panels.items()):
            for order, found in enumerate(points.values()):
                known = [(at, point) for at, point in enumerate(found, start=1) if point]
                at, style = [number for number, _ in known], plots.line(order, len(known))
                lows, highs = ([100 * getattr(point, side) for _, point in known] for side in ("low", "high"))
                if len(points) <= MOST_BANDS:
                    place.fill_between(at, lows, highs, color=style["color"], alpha=0.15, linewidth=0)
                place.plot(at, [100 * point.mean for _, point in known], **style)
            place.set_ylim(-2, 102)
            place.set_title(f"operators that {what}, %", size=9)
            place.set_xlabel("attempts per operator")
            plots.whole_ticks(place.xaxis)
        points = next(iter(panels.values()))
        plots.legend(figure, grid[0].get_lines(), [short(arm) for arm in points])
        return any(found for found in points.values())

    return draw


def dots(found: Points, names: Sequence[str]) -> plots.Draw:
    """A row for each arm; a mark with its interval for each figure."""

    def draw(figure: Any, axes: Any) -> bool:
        handles: dict[str, Any] = {}
        for row, points in enumerate(reversed(list(found.values()))):
            for order, (name, point) in enumerate(zip(names, points)):
                if point:
                    place = row + 0.5 * (len(names) / 2 - order - 0.5) / len(names) * 1.2
                    style = {"color": (plots.GREY, plots.BLUE, plots.ORANGE)[order % 3], "marker": "oDs"[order % 3]}
                    errors = [[100 * (point.mean - point.low)], [100 * (point.high - point.mean)]]
                    hollow = {"markerfacecolor": "none"} if order != 1 else {}
                    handles[name] = axes.errorbar(
                        [100 * point.mean], [place], xerr=errors, markersize=5, capsize=2, linewidth=1, linestyle="", **style, **hollow
                    )
        axes.set_yticks(range(len(found)), [fill(arm, PANEL_CHARACTERS) for arm in reversed(list(found))])
        axes.set_ylim(-0.6, len(found) - 0.4)
        axes.set_xlim(-2, 102)
        axes.set_xlabel("operators with a feasible kernel, %")
        plots.legend(figure, list(handles.values()), list(handles))
        return bool(handles)

    return draw


def by_round(results: Results, folder: Path) -> Iterator[plots.Plot | None]:
    """Of every arm, all seeds together."""
    arms = {arm: tries for arm, tries in results.told().items() if any(tried.attempts for tried in tries)}
    together = [tried for tries in arms.values() for tried in tries]
    names = round_plots.reasons(together)
    height = 0.9 + 2.1 * ceil(len(arms) / MOST_COLUMNS)

    def save(name: str, title: str, note: str, draw: Callable[[Any, Sequence[Tried]], bool]) -> plots.Plot | None:
        return plots.save(folder, name, title, note, 7.2, height, panels(arms, draw)) if arms else None

    note = "Share of a round's attempts, all seeds together."
    yield save(
        "failures", "Why attempts failed", note, lambda a, tries: round_plots.stacked(a, round_plots.failures(tries, names), "failed, %")
    )
    shown = round_plots.roles(together).names
    note = "Share of what a round's attempts were shown, by what it was shown as."
    stack = partial(round_plots.roles, names=shown)
    yield save("roles", "What is retrieved", note, lambda a, tries: round_plots.stacked(a, stack(tries), "shown, %")) if shown else None
    note = "Q of everything that was shown in a round, at that moment: the middle, and the middle half around it."
    is_valued = any(ref.q is not None for tried in together for attempt in tried.attempts for ref in attempt.shown_items)
    yield save("worth", "Value of what is shown", note, round_plots.worth) if is_valued else None
    note = "Added up over attempts and averaged over seeds: money where every call has a price, else tokens, else time of verification."
    yield plots.save(folder, "spent", "Cost over time", note, 5.6, 3.2 + 0.2 * len(arms), lambda f, a: spent(f, a, arms))


def spent(figure: Any, axes: Any, arms: ByArm) -> bool:
    if not round_plots.spent(axes, arms):
        return False
    plots.legend(figure, axes.get_lines(), [short(arm) for arm in arms])
    return True


def panels(arms: ByArm, draw_one: Callable[[Any, Sequence[Tried]], bool]) -> plots.Draw:
    """One for each arm, side by side, with the same axes and one legend."""

    def draw(figure: Any, axes: Any) -> bool:
        axes.remove()
        columns = min(len(arms), MOST_COLUMNS)
        grid = figure.subplots(ceil(len(arms) / columns), columns, sharex=True, sharey=True, squeeze=False)
        places = [place for row in grid for place in row]
        handles: dict[str, Any] = {}
        is_drawn = False
        for number, (place, (arm, tries)) in enumerate(zip(places, arms.items())):
            is_drawn |= draw_one(place, tries)
            place.set_title(short(arm, PANEL_CHARACTERS), size=9)
            place.set_ylabel(place.get_ylabel() if number % columns == 0 else "")
            place.set_xlabel("attempts per operator" if number + columns >= len(arms) else "")
            place.tick_params(labelbottom=number + columns >= len(arms))
            handles |= {name: handle for handle, name in zip(*place.get_legend_handles_labels())}
        for place in places[len(arms) :]:
            place.set_visible(False)
        plots.legend(figure, list(handles.values()), list(handles))
        return is_drawn

    return draw


def short(name: str, most: int = LONGEST_NAME) -> str:
    """What a legend has room for: its beginning and its end."""
    half = most // 2
    return name if len(name) <= most else f"{name[: half - 1]}…{name[-half:]}"
