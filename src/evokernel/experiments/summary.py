"""Summarizes the results of an experiment in a few sentences."""

from __future__ import annotations

from evokernel.experiments import speed_tables
from evokernel.experiments.axis_tables import summarize_axes
from evokernel.experiments.metrics import Metric, PairedDifference, format_number, format_points, format_share, format_speed
from evokernel.experiments.results import PROTOCOLS, Results
from evokernel.experiments.success_tables import count_phrase, paired_differences

MAX_PAIRS, MAX_ARMS = 3, 4


def summarize_results(results: Results) -> list[str]:
    """Return a few sentences on the axes and on each group."""
    return summarize_axes(results) + [
        line for group in results.groups if results.operator_count(group) for line in summarize_group(results, group)
    ]


def summarize_group(results: Results, group: str) -> list[str]:
    """Return sentences on the comparison of arms, on solved operators under both protocols, and on speed."""
    rates = {metric.name: metric for metric in results.rate_metrics()}
    pairs = list(paired_differences(results, group).items())[:MAX_PAIRS]
    lines = [
        compare_success(one, other, differences["Acc"][1])
        + compare_first_attempts(one, differences["Acc, round 1"][1])
        + (compare_attempts(one, differences["attempts"][1]) if "attempts" in differences else "")
        for (one, other), differences in pairs
    ]
    lines.append(f"Solved, {PROTOCOLS[results.loop_protocol]}: {format_rates(results, group, rates['Acc'])}.")
    others = [name for name in rates if name.removeprefix("Acc, ") in PROTOCOLS.values()]
    lines += [f"Solved, {name.removeprefix('Acc, ')}: {format_rates(results, group, rates[name])}." for name in others]
    lines += describe_speed(results, group)
    return [f"{group}, {count_phrase(results, group)}: {lines[0]}", *lines[1:]]


def format_rates(results: Results, group: str, metric: Metric) -> str:
    """`value 83 % [77 to 89], passk 11 % [7 to 15]`."""
    arms = main_arms(results, group)
    hidden_count = len(results.arm_results(group)) - len(arms)
    texts = [f"{arm} {format_share(metric.mean_interval(results.arm_results(group)[arm]))}" for arm in arms]
    return ", ".join(texts) + (f", and {hidden_count} more in the table" if hidden_count else "")


def main_arms(results: Results, group: str) -> list[str]:
    """Return the most important arms: those that are compared."""
    arms = list(results.arm_results(group))
    in_pairs = [arm for pair in results.spec.compare for arm in pair if arm in arms]
    return arms if len(arms) <= MAX_ARMS else list(dict.fromkeys([*in_pairs, *arms]))[:MAX_ARMS]


def compare_success(one: str, other: str, difference: PairedDifference | None) -> str:
    """`value solves more operators than similarity: +10 points [3 to 17], p = 0.012.`"""
    if difference is None:
        return f"{one} and {other} have no operator in common."
    interval, figures = difference.interval, f"{format_points(difference.interval)}{difference.p_text}"
    if interval.low == interval.high == 0:
        return f"{one} and {other} solve equally many operators."
    if interval.low <= 0 <= interval.high:
        return f"{one} and {other} do not differ significantly: {figures}."
    return f"{one} solves {'more' if interval.mean > 0 else 'fewer'} operators than {other}: {figures}."


def compare_first_attempts(one: str, difference: PairedDifference | None) -> str:
    """` value is correct at the first attempt more often: +16 points [2 to 28], p = 0.027.`; empty if not significant."""
    if difference is None or difference.interval.low <= 0 <= difference.interval.high:
        return ""
    direction = "more" if difference.interval.mean > 0 else "less"
    figures = f"{format_points(difference.interval)}{difference.p_text}"
    return f" {one} is correct at the first attempt {direction} often: {figures}."


def compare_attempts(one: str, difference: PairedDifference | None) -> str:
    """` value needs fewer attempts to its first correct kernel: -0.41 [-0.60 to -0.22], p = 0.002.`; empty if not significant."""
    if difference is None or difference.interval.low <= 0 <= difference.interval.high:
        return ""
    direction = "more" if difference.interval.mean > 0 else "fewer"
    figures = f"{format_number(difference.interval)}{difference.p_text}"
    return f" {one} needs {direction} attempts to its first correct kernel: {figures}."


def describe_speed(results: Results, group: str) -> list[str]:
    """Return a sentence on the speed of the best kernels compared with the first baseline; an empty list if none was timed."""
    speeds = [
        speed
        for speed in speed_tables.iterate_speeds(results, group)
        if speed.baseline not in (speed_tables.FIRST_CORRECT, speed_tables.ROOFLINE)
    ]
    if not speeds:
        return []
    baseline, arms = speeds[0].baseline, main_arms(results, group)
    texts = [f"{speed.arm} {format_speed(speed.geomean)}" for speed in speeds if speed.baseline == baseline and speed.arm in arms]
    if not texts:
        return []
    return [f"Best kernels compared with {baseline}, geometric mean ({speed_tables.clock_text(results)}): {', '.join(texts)}."]
