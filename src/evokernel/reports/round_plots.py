"""Draws statistics by round; each function draws into given axes: those of one figure or of one panel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from evokernel.core.records import Stage
from evokernel.reports import metrics, plots, round_stats
from evokernel.reports.metrics import TaskResult

FILLS = ("#1b4f72", plots.ORANGE, "#9cc4e4", plots.GREY, "#f6d7ae", plots.BLUE, "#e3e6ea", "#5b636e")
"""Dark and light fills alternate, so neighbours differ without colour."""
STACK_HATCHES = ("", "///", "", "xxx", "\\\\\\", "---", "|||", "++")
STAGES = ((Stage.DRAFT, "Q1 (drafting)", plots.BLUE, "-", "o"), (Stage.REFINE, "Q2 (refining)", plots.ORANGE, "--", "s"))
OTHER, MAX_REASONS, MAX_REASON_CHARACTERS = "other", 6, 24


class StackedShares(NamedTuple):
    """Shares of a total by round."""

    names: tuple[str, ...]
    """From bottom to top."""
    rounds: Sequence[Counter[str]]
    totals: Sequence[int]


def stack_failures(results: Sequence[TaskResult], names: tuple[str, ...] = ()) -> StackedShares:
    """Count failed attempts by reason and round; only the most common reasons, or those in `names`, are named."""
    counts = metrics.count_failures_by_round(results)
    labels = names or common_reasons(results)
    merged_counts = [Counter[str]() for _ in counts]
    for row, merged_row in zip(counts, merged_counts):
        for reason, count in row.items():
            merged_row[reason if reason in labels else OTHER] += count
    return StackedShares(labels, merged_counts, [len(attempts) for attempts in round_stats.attempts_by_round(results)])


def common_reasons(results: Sequence[TaskResult]) -> tuple[str, ...]:
    """Return the most common failure reasons, and `other` if there are more."""
    total = metrics.count_failures(attempt for result in results for attempt in result.attempts)
    common = [reason for reason, _ in sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))[:MAX_REASONS]]
    return (*common, *([OTHER] if len(total) > len(common) else []))


def stack_roles(results: Sequence[TaskResult], names: tuple[str, ...] = ()) -> StackedShares:
    """Count shown memory items by role and round."""
    counts = round_stats.count_roles_by_round(results)
    labels = names or tuple(role for role in round_stats.ROLES if any(row[role] for row in counts))
    return StackedShares(labels, counts, [sum(row.values()) for row in counts])


def draw_stacked_bars(axes: Any, stack: StackedShares, label: str) -> bool:
    """Draw the shares of each round as a stacked bar."""
    if not stack.names or not any(stack.totals):
        return False
    positions, base = range(1, len(stack.rounds) + 1), [0.0] * len(stack.rounds)
    for order, name in enumerate(stack.names):
        shares = [100 * row[name] / total if total else 0.0 for row, total in zip(stack.rounds, stack.totals)]
        fill = {"facecolor": FILLS[order % len(FILLS)], "hatch": STACK_HATCHES[order % len(STACK_HATCHES)]}
        short_name = name if len(name) <= MAX_REASON_CHARACTERS else name[: MAX_REASON_CHARACTERS - 1] + "…"
        axes.bar(positions, shares, bottom=base, width=0.75, label=short_name, edgecolor=plots.INK, linewidth=0.5, **fill)
        base = [below + share for below, share in zip(base, shares)]
    axes.set_xlim(0.4, max(len(stack.rounds), 2) + 0.6)
    label_axes(axes, label)
    return True


def draw_values(axes: Any, results: Sequence[TaskResult]) -> bool:
    """Draw the median and the middle half of Q of shown memory items."""
    paths = [(round_stats.value_quartiles_by_round(results, stage), name, colour, line, mark) for stage, name, colour, line, mark in STAGES]
    for path, name, colour, line, mark in paths:
        if path:
            at = [number for number, _ in path]
            axes.fill_between(at, [s.low for _, s in path], [s.high for _, s in path], color=colour, alpha=0.15, linewidth=0)
            marker_step = max(1, len(path) // 10)
            style = {"color": colour, "linestyle": line, "marker": mark, "markersize": 4, "markevery": marker_step}
            axes.plot(at, [s.median for _, s in path], label=name, **style)
    axes.axhline(0, color=plots.INK, linewidth=0.6)
    label_axes(axes, "value of shown items")
    return any(path for path, *_ in paths)


def draw_costs(axes: Any, arms: Mapping[str, Sequence[TaskResult]]) -> bool:
    """Draw the cumulative cost of attempts, one line for each arm."""
    unit = round_stats.choose_cost_unit(attempt for results in arms.values() for result in results for attempt in result.attempts)
    if not unit:
        return False
    for order, (arm, results) in enumerate(arms.items()):
        path = round_stats.cumulative_costs(results, unit)
        axes.plot(range(1, len(path) + 1), path, label=arm, **plots.line_style(order, len(path)))
    axes.set_ylim(bottom=0)
    label_axes(axes, unit.label)
    return True


def label_axes(axes: Any, label: str) -> None:
    """Label axes whose x axis is the attempt number."""
    axes.set_xlabel("attempts per operator")
    axes.set_ylabel(label)
    plots.use_integer_ticks(axes.xaxis)
