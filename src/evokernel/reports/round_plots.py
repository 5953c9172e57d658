"""Drawings of what happened round by round; each goes into axes of its own or into one of several panels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from evokernel.core.records import Stage
from evokernel.reports import metrics, plots, round_stats
from evokernel.reports.metrics import Tried

FILLS = ("#1b4f72", plots.ORANGE, "#9cc4e4", plots.GREY, "#f6d7ae", plots.BLUE, "#e3e6ea", "#5b636e")
"""Dark and light by turns: neighbours differ without colour, too."""
STACK_HATCHES = ("", "///", "", "xxx", "\\\\\\", "---", "|||", "++")
STAGES = ((Stage.DRAFT, "Q1 (drafting)", plots.BLUE, "-", "o"), (Stage.REFINE, "Q2 (refining)", plots.ORANGE, "--", "s"))
OTHER, MOST_REASONS, LONGEST_REASON = "other", 6, 24


class Stack(NamedTuple):
    """Parts of a whole, round by round."""

    names: tuple[str, ...]
    """From below."""
    rounds: Sequence[Counter[str]]
    wholes: Sequence[int]


def failures(found: Sequence[Tried], names: tuple[str, ...] = ()) -> Stack:
    """Attempts that failed, by reason; the commonest have a name. With `names`, these and no others do."""
    counted = metrics.failures_by_round(found)
    known = names or reasons(found)
    shortened = [Counter[str]() for _ in counted]
    for row, short in zip(counted, shortened):
        for reason, count in row.items():
            short[reason if reason in known else OTHER] += count
    return Stack(known, shortened, [len(attempts) for attempts in round_stats.by_round(found)])


def reasons(found: Sequence[Tried]) -> tuple[str, ...]:
    """The commonest reasons, and a word for the rest where there is one."""
    total = metrics.failures(attempt for tried in found for attempt in tried.attempts)
    common = [reason for reason, _ in sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_REASONS]]
    return (*common, *([OTHER] if len(total) > len(common) else []))


def roles(found: Sequence[Tried], names: tuple[str, ...] = ()) -> Stack:
    """Memories that were shown, by what they were shown as."""
    counted = round_stats.roles(found)
    known = names or tuple(role for role in round_stats.ROLES if any(row[role] for row in counted))
    return Stack(known, counted, [sum(row.values()) for row in counted])


def stacked(axes: Any, stack: Stack, label: str) -> bool:
    """Bars of shares, one on the other."""
    if not stack.names or not any(stack.wholes):
        return False
    places, base = range(1, len(stack.rounds) + 1), [0.0] * len(stack.rounds)
    for order, name in enumerate(stack.names):
        shares = [100 * row[name] / whole if whole else 0.0 for row, whole in zip(stack.rounds, stack.wholes)]
        fill = {"facecolor": FILLS[order % len(FILLS)], "hatch": STACK_HATCHES[order % len(STACK_HATCHES)]}
        shown = name if len(name) <= LONGEST_REASON else name[: LONGEST_REASON - 1] + "…"
        axes.bar(places, shares, bottom=base, width=0.75, label=shown, edgecolor=plots.INK, linewidth=0.5, **fill)
        base = [below + share for below, share in zip(base, shares)]
    axes.set_xlim(0.4, max(len(stack.rounds), 2) + 0.6)
    labelled(axes, label)
    return True


def worth(axes: Any, found: Sequence[Tried]) -> bool:
    """The middle of Q of what was shown, and the middle half around it."""
    paths = [(round_stats.worth(found, stage), name, colour, line, mark) for stage, name, colour, line, mark in STAGES]
    for path, name, colour, line, mark in paths:
        if path:
            at = [number for number, _ in path]
            axes.fill_between(at, [s.low for _, s in path], [s.high for _, s in path], color=colour, alpha=0.15, linewidth=0)
            every = max(1, len(path) // 10)
            style = {"color": colour, "linestyle": line, "marker": mark, "markersize": 4, "markevery": every}
            axes.plot(at, [s.median for _, s in path], label=name, **style)
    axes.axhline(0, color=plots.INK, linewidth=0.6)
    labelled(axes, "value of what was shown")
    return any(path for path, *_ in paths)


def spent(axes: Any, arms: Mapping[str, Sequence[Tried]]) -> bool:
    """What attempts took, added up; a line for each arm."""
    counted = round_stats.spending(attempt for found in arms.values() for tried in found for attempt in tried.attempts)
    if not counted:
        return False
    for order, (arm, found) in enumerate(arms.items()):
        path = round_stats.spent(found, counted)
        axes.plot(range(1, len(path) + 1), path, label=arm, **plots.line(order, len(path)))
    axes.set_ylim(bottom=0)
    labelled(axes, counted.label)
    return True


def labelled(axes: Any, label: str) -> None:
    axes.set_xlabel("attempts per operator")
    axes.set_ylabel(label)
    plots.whole_ticks(axes.xaxis)
