"""Builds the tables and sentences on an experiment's axes: measures of every arm, differences between values, and reused outcomes."""

from __future__ import annotations

from typing import Any

from evokernel.core.labels import format_count
from evokernel.experiments.axis_effects import Effect, SearchComparison, split_effects
from evokernel.experiments.metrics import MIN_REPORTED_P, Metric, describe_ratio, format_ratio
from evokernel.experiments.results import Results, flatten_seeds
from evokernel.experiments.success_tables import INTERVAL_NOTE
from evokernel.reports import formatting
from evokernel.reports.tables import Column, Table

MAX_NAMED_PAIRS = 6
EXPLANATIONS = {
    "mean speed-up": "speed of the best kernel so far relative to the baseline, geometric mean over all attempts; arms are sorted by it",
    "mean speed-up, equal seconds": "the same over equal verification seconds instead of attempts",
    "final speed-up": "speed of the best kernel after all attempts, relative to the baseline",
    "correct at 1": "share of operators whose first attempt is correct",
    "verification, s": "seconds of verification per operator, as if no outcome of another run had been reused",
    "diversity": "mean distance of the correct kernels of an operator: 0 for equal code, 1 for no common sequence of five tokens",
}
FLOOR_NOTE = (
    "Before its first correct kernel an operator counts with the slowest correct kernel of any arm. "
    "Operators that no arm solved do not count."
)
REUSE_NOTE = "A kernel that another arm or seed had written before was not verified again, and no new inputs were drawn for it. "
ESTIMATES_NOTE = "Estimates of a latency would be the same in another verification."
MEASURED_NOTE = (
    "Measured latencies are shared, too: each kernel was measured once, and an error of its measurement is the same in all arms."
)

NO_REUSE_NOTE = "No outcome of another run was reused: measured latencies are not shared here, or no two runs wrote the same kernel."


def build_axis_tables(results: Results) -> list[Table]:
    """Return the measures of all arms and the effects of the axes, for all operators and for each group; empty without axes."""
    tables = []
    for name, comparison in results.searches.items():
        tables.append(measures_table(name, comparison))
        tables += [table for axis in results.spec.axes if (table := effects_table(name, comparison, axis))]
    return tables + reuse_tables(results)


def measures_table(name: str, comparison: SearchComparison) -> Table:
    """Return all measures of every arm, the best arm first."""
    metrics = comparison.metrics
    rows = [
        (arm, *(metric.format_interval(comparison.mean_interval(metric, arm)) for metric in metrics)) for arm in comparison.sorted_arms()
    ]
    columns = (Column("arm"), *(Column(metric.name, explanation=EXPLANATIONS.get(metric.name, "")) for metric in metrics))
    return Table(f"{name}: the search", columns, tuple(rows), f"{FLOOR_NOTE} {describe_seconds(comparison)} {INTERVAL_NOTE}")


def describe_seconds(comparison: SearchComparison) -> str:
    """Return a sentence on the attempts that lie within the verification seconds that all arms have."""
    results = [result for seeds in comparison.arms.values() for result in flatten_seeds(seeds)]
    shares = [share for result in results if (share := comparison.budget.share_within_seconds(result)) is not None]
    if not shares:
        return "Verification seconds: not reported."
    within = formatting.format_percent(sum(shares) / len(shares))
    return f"Equal seconds: those that every arm and seed spent on an operator; {within} of the attempts lie within them."


def effects_table(name: str, comparison: SearchComparison, axis: str) -> Table | None:
    """Return the differences between the values of one axis, with equal attempts and with equal seconds."""
    by_attempts = comparison.effects(axis, comparison.area)
    by_seconds = {(one.one, one.other): one for one in comparison.effects(axis, comparison.area_over_seconds)}
    rows = [(f"{one.one} / {one.other}", *effect_cells(one), *effect_cells(by_seconds.get((one.one, one.other)))) for one in by_attempts]
    columns = (
        Column(axis),
        Column("equal attempts", explanation="ratio of mean speed-ups; above 1×: the first one's kernels are faster"),
        Column("p", explanation="probability of such a difference by chance, with Holm's correction for all pairs of the column"),
        Column("equal seconds"),
        Column("p, equal seconds"),
    )
    note = "Paired by operator and seed, between arms that differ in this axis only."
    return Table(f"{name}: effect of the {axis}", columns, tuple(rows), note) if rows else None


def effect_cells(effect: Effect | None) -> tuple[str, str]:
    """Return the ratio with its interval, and the corrected p."""
    return (format_ratio(effect.interval), format_p(effect.adjusted_p)) if effect else (formatting.UNKNOWN, formatting.UNKNOWN)


def format_p(p: float | None) -> str:
    """`0.012`, `< 0.001`."""
    if p is None:
        return formatting.UNKNOWN
    return f"{p:.3f}" if p >= MIN_REPORTED_P else f"< {MIN_REPORTED_P}"


def summarize_axes(results: Results) -> list[str]:
    """Return a sentence per group and axis on the values that can be distinguished, and on those that cannot."""
    return [
        f"{name}: {summarize_axis(axis, comparison.effects(axis, comparison.area))}"
        for name, comparison in results.searches.items()
        for axis in results.spec.axes
    ]


def summarize_axis(axis: str, effects: list[Effect]) -> str:
    """`1 of 3 pairs of the axis memory can be distinguished by the mean speed-up of the search: value is 1.20× faster than none. ...`"""
    different, equal = split_effects(effects)
    if not effects:
        return f"the axis {axis} has no two values to compare."
    if not different:
        return f"no two values of the axis {axis} can be distinguished by the mean speed-up of the search{name_pairs(equal)}."
    facts = ", ".join(f"{one.one} is {describe_ratio(one.interval.exp().mean)} than {one.other}" for one in different)
    others = f" {format_count(len(equal), 'pair')} cannot be distinguished{name_pairs(equal)}." if equal else ""
    of_pairs = f"{len(different)} of {format_count(len(effects), 'pair')} of the axis {axis}"
    return f"{of_pairs} can be distinguished by the mean speed-up of the search: {facts}.{others}"


def name_pairs(effects: list[Effect]) -> str:
    """`: mcts and beam, mcts and islands`; only their number if there are many."""
    if len(effects) > MAX_NAMED_PAIRS:
        return f" ({format_count(len(effects), 'pair')}, see the table)"
    return ": " + ", ".join(f"{one.one} and {one.other}" for one in effects)


def reuse_tables(results: Results) -> list[Table]:
    """Return how many outcomes each arm reused; empty if the experiment verifies every kernel."""
    if not results.spec.reuse_outcomes:
        return []
    rows = []
    for arm, seeds in results.by_arm.items():
        attempts = [attempt for result in flatten_seeds(seeds) for attempt in result.attempts]
        own = sum(attempt.outcome.reused_from.startswith(f"{attempt.task}/") for attempt in attempts)
        reused = sum(bool(attempt.outcome.reused_from) for attempt in attempts)
        rows.append((arm, len(attempts), len(attempts) - reused, reused - own, own))
    columns = (
        Column("arm"),
        Column("attempts", "count"),
        Column("verified", "count"),
        Column("reused from other runs", "count"),
        Column("equal to an earlier attempt", "count", explanation="a kernel that the run had verified for the operator before"),
    )
    is_reused = any(row[3] for row in rows)
    reuse_note = REUSE_NOTE + (MEASURED_NOTE if results.spec.reuse_outcomes == "measured" else ESTIMATES_NOTE)
    note = reuse_note if is_reused else NO_REUSE_NOTE
    return [Table("Reused outcomes", columns, tuple(rows), note)]


def axes_to_json(results: Results) -> dict[str, Any]:
    """Return measures and effects by group as a JSON object; speed-ups are logarithms."""
    return {
        name: {
            "arms": {
                arm: {metric.name: interval_dict(metric, comparison, arm) for metric in comparison.metrics} for arm in comparison.arms
            },
            "relative_to_mean": {arm: interval._asdict() for arm, interval in comparison.relative_to_mean().items()},
            "effects": {
                axis: {
                    metric.name: [effect._asdict() | {"interval": effect.interval._asdict()} for effect in comparison.effects(axis, metric)]
                    for metric in (comparison.area, comparison.area_over_seconds)
                }
                for axis in results.spec.axes
            },
        }
        for name, comparison in results.searches.items()
    }


def interval_dict(metric: Metric, comparison: SearchComparison, arm: str) -> dict[str, Any] | None:
    """Return a mean with its interval as a JSON object; None without values."""
    interval = comparison.mean_interval(metric, arm)
    return interval._asdict() if interval else None
