"""The effects of an experiment's axes: how the search differs between two values of one axis, with equal values of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import combinations
from math import inf
from typing import NamedTuple

import numpy as np

from evokernel.experiments.intervals import Grid, Interval, bootstrap_interval, difference_interval, holm_adjust, p_value
from evokernel.experiments.metrics import Metric, ResultsBySeed, correct_within
from evokernel.experiments.search_measures import kernel_distance, share_budget, verification_s
from evokernel.experiments.spec import ExperimentSpec

SIGNIFICANCE = 0.05


class Effect(NamedTuple):
    """How one value of an axis differs from another in one measure, in the mean over the values of the other axes."""

    one: str
    other: str
    interval: Interval
    """Difference of the measure, `one` minus `other`, paired by operator and seed; of logarithms for speed-ups."""
    p: float | None
    adjusted_p: float | None
    """p with Holm's correction for all pairs of values of the axis."""

    @property
    def is_significant(self) -> bool:
        """Whether the two values can be distinguished."""
        return self.adjusted_p is not None and self.adjusted_p < SIGNIFICANCE


class SearchComparison:
    """The searches of all arms on some operators, with the budget that they share."""

    def __init__(self, spec: ExperimentSpec, arms: Mapping[str, ResultsBySeed]) -> None:
        self.spec = spec
        self.levels = {arm.name: arm.levels for arm in self.spec.arms if arm.name in arms}
        self.arms = {name: arms[name] for name in self.levels}
        self.budget = share_budget(self.arms.values(), self.spec.run_config({}).budget)
        self.grids: dict[tuple[str, str], Grid] = {}
        """Values by measure and arm, computed at first use."""
        self.found_effects: dict[tuple[str, str], list[Effect]] = {}
        """Effects by axis and measure, computed at first use."""

    @cached_property
    def area(self) -> Metric:
        """The main measure: area under the curve of the best kernel over attempts."""
        return Metric("mean speed-up", self.budget.mean_over_attempts, "ratio")

    @cached_property
    def area_over_seconds(self) -> Metric:
        """The same with equal verification seconds."""
        return Metric("mean speed-up, equal seconds", self.budget.mean_over_seconds, "ratio")

    @cached_property
    def metrics(self) -> list[Metric]:
        """All measures of a search."""
        attempts = self.budget.attempts
        return [
            self.area,
            self.area_over_seconds,
            Metric("final speed-up", self.budget.final_log_speedup, "ratio"),
            Metric("correct at 1", correct_within(1), "share"),
            Metric(f"correct at {attempts}", correct_within(attempts), "share"),
            Metric("verification, s", verification_s, "number"),
            Metric("diversity", kernel_distance, "number"),
        ]

    def value_grid(self, metric: Metric, arm: str) -> Grid:
        """Return a measure of every operator and seed."""
        if (metric.name, arm) not in self.grids:
            self.grids[metric.name, arm] = metric.value_grid(self.arms[arm])
        return self.grids[metric.name, arm]

    def mean_interval(self, metric: Metric, arm: str) -> Interval | None:
        """Return the mean of a measure over operators and seeds, with its interval."""
        return metric.grid_interval(self.value_grid(metric, arm))

    def sorted_arms(self) -> list[str]:
        """Return the arms, the best by the main measure first; arms without a value last."""
        means = {arm: mean_value(self.value_grid(self.area, arm)) for arm in self.arms}
        return sorted(means, key=lambda arm: (-means[arm], arm))

    def relative_to_mean(self) -> dict[str, Interval]:
        """Return each arm's main measure minus the mean of all arms, paired by operator and seed, in the order of `sorted_arms`."""
        grids = {arm: self.value_grid(self.area, arm) for arm in self.arms}
        mean = np.mean(list(grids.values()), axis=0)
        intervals = {arm: difference_interval(grids[arm], mean) for arm in self.sorted_arms()}
        return {arm: interval for arm, interval in intervals.items() if interval}

    def axis_values(self, axis: str) -> list[str]:
        """Return the values of an axis that arms have, in the order of the file."""
        used = {levels.get(axis) for levels in self.levels.values()}
        return [value for value in self.spec.axes[axis] if value in used]

    def effects(self, axis: str, metric: Metric) -> list[Effect]:
        """Return the difference of every pair of an axis's values, with Holm's correction for their number."""
        if (axis, metric.name) not in self.found_effects:
            self.found_effects[axis, metric.name] = self.compute_effects(axis, metric)
        return self.found_effects[axis, metric.name]

    def compute_effects(self, axis: str, metric: Metric) -> list[Effect]:
        """Compute the differences, their intervals and their p values."""
        grids = {pair: self.paired_differences(axis, *pair, metric) for pair in combinations(self.axis_values(axis), 2)}
        found = [(pair, grid, interval) for pair, grid in grids.items() if grid is not None and (interval := bootstrap_interval(grid))]
        p_values = [p_value(grid) for _, grid, _ in found]
        known = [p for p in p_values if p is not None]
        adjusted = iter(holm_adjust(known))
        return [
            Effect(*pair, interval, p, None if p is None else next(adjusted))
            for (pair, _, interval), p in zip(found, p_values, strict=True)
        ]

    def paired_differences(self, axis: str, one: str, other: str, metric: Metric) -> Grid | None:
        """Return the difference for each operator and seed: the mean over pairs of arms that differ in this axis only."""
        by_rest: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        for arm, levels in self.levels.items():
            if levels.get(axis) in (one, other):
                rest = tuple(sorted((name, value) for name, value in levels.items() if name != axis))
                by_rest.setdefault(rest, {})[levels[axis]] = arm
        grids = [self.value_grid(metric, pair[one]) - self.value_grid(metric, pair[other]) for pair in by_rest.values() if len(pair) == 2]
        return np.mean(grids, axis=0) if grids else None


def mean_value(grid: Grid) -> float:
    """Return the mean of the values that exist; minus infinity without any."""
    values = grid[np.isfinite(grid)]
    return float(values.mean()) if values.size else -inf


def split_effects(effects: Sequence[Effect]) -> tuple[list[Effect], list[Effect]]:
    """Return the pairs that can be distinguished, and the others."""
    return [one for one in effects if one.is_significant], [one for one in effects if not one.is_significant]
