"""Computes how many operators an experiment needs to show a difference between two arms, from the variance of recorded runs."""

from __future__ import annotations

from itertools import count
from math import ceil, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from evokernel.core.errors import UserError
from evokernel.core.run import Run
from evokernel.experiments.intervals import CONFIDENCE, Grid, build_grid
from evokernel.experiments.metrics import correct_within
from evokernel.reports.metrics import collect_results

POWER = 0.8
MAX_OPERATORS = 100_000


class VarianceParts(NamedTuple):
    """Variance of paired differences: between operators, between seeds, and what neither explains."""

    operators: float
    seeds: float
    residual: float

    def standard_error(self, operators: int, seeds: int) -> float:
        """Return the standard error of the mean difference over these numbers of operators and seeds."""
        return sqrt(self.operators / operators + self.seeds / seeds + self.residual / (operators * seeds))


def read_differences(folder: Path, arm: str, other: str) -> Grid:
    """Return how much more often one arm of a recorded experiment is correct at the first attempt, by operator and seed."""
    grids = []
    for name in (arm, other):
        folders = []
        for seed in count():
            if not (folder / f"{name}-{seed}" / "run.toml").is_file():
                break
            folders.append(folder / f"{name}-{seed}")
        if not folders:
            raise UserError(f"{folder} has no run {name}-0. Name the folder of an experiment and two of its arms.")
        runs = [Run.open(one) for one in folders]
        by_seed = {seed: sorted(collect_results(run, run.attempts()), key=lambda one: one.task.id) for seed, run in enumerate(runs)}
        grids.append(build_grid(by_seed, correct_within(1)))
    if grids[0].shape != grids[1].shape:
        raise UserError(f"{folder}: the arms '{arm}' and '{other}' have different operators or seeds. Complete the experiment first.")
    differences: Grid = grids[0] - grids[1]
    return differences


def estimate_variance(differences: Grid) -> VarianceParts:
    """Estimate the parts by the analysis of variance of a grid of operators and seeds; rows with gaps are left out, parts are at least 0.

    Raises ValueError if fewer than two operators or seeds remain: then the parts cannot be distinguished.
    """
    grid = differences[np.isfinite(differences).all(axis=1)]
    operators, seeds = grid.shape
    if operators < 2 or seeds < 2:
        raise ValueError(f"{operators} operators and {seeds} seeds are too few for an estimate: two of each are needed")
    rows, columns, mean = grid.mean(axis=1), grid.mean(axis=0), grid.mean()
    rest = grid - rows[:, None] - columns[None, :] + mean
    residual = float((rest**2).sum()) / ((operators - 1) * (seeds - 1))
    between_operators = (float(rows.var(ddof=1)) * seeds - residual) / seeds
    between_seeds = (float(columns.var(ddof=1)) * operators - residual) / operators
    return VarianceParts(max(0.0, between_operators), max(0.0, between_seeds), residual)


def variance_from_interval(low: float, high: float, operators: int, seeds: int) -> VarianceParts:
    """Return the variance behind a recorded 95 % interval as what neither operators nor seeds explain.

    Then a plan with fewer seeds than the recorded runs needs more operators, which is the cautious reading of an interval alone.
    """
    error = (high - low) / (2 * NormalDist().inv_cdf((1 + CONFIDENCE) / 2))
    return VarianceParts(0.0, 0.0, error**2 * operators * seeds)


def detectable_difference(variance: VarianceParts, operators: int, seeds: int, power: float = POWER) -> float:
    """Return the smallest true difference that a two-sided test at 95 % confidence shows with this power."""
    normal = NormalDist()
    return (normal.inv_cdf((1 + CONFIDENCE) / 2) + normal.inv_cdf(power)) * variance.standard_error(operators, seeds)


def count_operators_needed(variance: VarianceParts, seeds: int, smallest_difference: float, power: float = POWER) -> int | None:
    """Return how many operators show a difference with this power; None if no number of operators is enough with so few seeds."""
    if detectable_difference(variance, MAX_OPERATORS, seeds, power) > smallest_difference:
        return None
    factor = (detectable_difference(VarianceParts(1.0, 0.0, 0.0), 1, 1, power) / smallest_difference) ** 2
    return max(2, ceil((variance.operators + variance.residual / seeds) / (1 / factor - variance.seeds / seeds)))
