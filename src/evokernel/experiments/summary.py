"""What an experiment found, in a few sentences."""

from __future__ import annotations

from evokernel.experiments import speed_tables
from evokernel.experiments.metrics import Apart, Measure, number, points, ratio, share
from evokernel.experiments.results import PROTOCOLS, Results
from evokernel.experiments.success_tables import counts, pairs

MOST_PAIRS, MOST_ARMS = 3, 4


def summary(results: Results) -> list[str]:
    """Two lines or three for each group."""
    return [line for group in results.groups if results.operators(group) for line in of_group(results, group)]


def of_group(results: Results, group: str) -> list[str]:
    """What was found of arms against each other, how much each solves by both protocols, how fast kernels are."""
    known = {measure.name: measure for measure in results.rates()}
    compared = list(pairs(results, group).items())[:MOST_PAIRS]
    lines = [
        against(one, other, found["Acc"][1]) + at_once(one, found["Acc, round 1"][1]) + sooner(one, found["attempts"][1])
        for (one, other), found in compared
    ]
    lines.append(f"Solved, {PROTOCOLS[results.loop]}: {rates(results, group, known['Acc'])}.")
    others = [name for name in known if name.removeprefix("Acc, ") in PROTOCOLS.values()]
    lines += [f"{name.removeprefix('Acc, ').capitalize()}: {rates(results, group, known[name])}." for name in others]
    lines += fastest(results, group)
    return [f"{group}, {counts(results, group)}: {lines[0]}", *lines[1:]]


def rates(results: Results, group: str, measure: Measure) -> str:
    """`value 83 % [77 to 89], passk 11 % [7 to 15]`."""
    arms = few(results, group)
    more = len(results.arms(group)) - len(arms)
    said = [f"{arm} {share(measure.of(results.arms(group)[arm]))}" for arm in arms]
    return ", ".join(said) + (f", and {more} more below" if more else "")


def few(results: Results, group: str) -> list[str]:
    """The arms that a reader asks for first: those that are compared."""
    arms = list(results.arms(group))
    asked = [arm for pair in results.plan.against for arm in pair if arm in arms]
    return arms if len(arms) <= MOST_ARMS else list(dict.fromkeys([*asked, *arms]))[:MOST_ARMS]


def against(one: str, other: str, found: Apart | None) -> str:
    """`value solves more than similarity: +10 points [3 to 17], p = 0.012.`"""
    if found is None:
        return f"{one} and {other} have no operator in common."
    if found.by.low == found.by.high == 0:
        return f"{one} and {other} solve the same."
    if found.by.low <= 0 <= found.by.high:
        return f"{one} and {other} cannot be told apart: {points(found.by)}{found.chance}."
    return f"{one} solves {'more' if found.by.mean > 0 else 'fewer'} than {other}: {points(found.by)}{found.chance}."


def at_once(one: str, found: Apart | None) -> str:
    """` value is right at the first attempt more often: +16 points [2 to 28], p = 0.027.`; nothing where that cannot be told."""
    if found is None or found.by.low <= 0 <= found.by.high:
        return ""
    return f" {one} is right at the first attempt {'more' if found.by.mean > 0 else 'less'} often: {points(found.by)}{found.chance}."


def sooner(one: str, found: Apart | None) -> str:
    """` value takes fewer attempts to a first feasible kernel: -0.41 [-0.60 to -0.22], p = 0.002.`; nothing where that cannot be told."""
    if found is None or found.by.low <= 0 <= found.by.high:
        return ""
    return f" {one} takes {'more' if found.by.mean > 0 else 'fewer'} attempts to a first feasible kernel: {number(found.by)}{found.chance}."


def fastest(results: Results, group: str) -> list[str]:
    """How fast the best kernels are over the first baseline, where they were timed."""
    known = [found for found in speed_tables.speeds(results, group) if found.over not in (speed_tables.FIRST, speed_tables.FLOOR)]
    if not known:
        return []
    arms = few(results, group)
    said = [f"{found.arm} {ratio(found.geomean)}" for found in known if found.over == known[0].over and found.arm in arms]
    return [f"Best kernels over {known[0].over}, geometric mean ({speed_tables.clock(results)}): {', '.join(said)}."]
