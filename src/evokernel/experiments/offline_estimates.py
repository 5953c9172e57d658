"""Estimates of a policy's mean reward from recorded choices: inverse propensity and doubly robust, with intervals."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from evokernel.core.records import Stage
from evokernel.experiments.intervals import CONFIDENCE, DRAWS, SEED, Interval
from evokernel.experiments.offline import Decision
from evokernel.experiments.run_comparison import has_bounds
from evokernel.policies.value_model import Observation, ValueModel
from evokernel.reports.formatting import UNKNOWN
from evokernel.reports.tables import Column, Table

FOLDS = 5
MIN_EFFECTIVE = 10.0
"""With fewer effective attempts, the recorded choices say nothing about the policy."""
RECORD_VISITS = 8.0


class Estimate(NamedTuple):
    """The mean reward of one policy at one stage."""

    policy: str
    stage: Stage
    attempts: int
    """Recorded attempts with a propensity."""
    effective: float
    """How many attempts that the policy itself made would be as informative: the square of the sum of weights over the sum of squares."""
    recorded: float
    """Mean reward of the recorded attempts."""
    inverse_propensity: Interval | None
    """Weighted mean of the recorded rewards, weights normalised; None without a matching attempt."""
    doubly_robust: Interval | None
    difference: Interval | None
    """Doubly robust estimate minus the recorded mean."""

    @property
    def is_informative(self) -> bool:
        """Whether enough recorded choices match those of the policy."""
        return self.effective >= MIN_EFFECTIVE


def estimate_policy(policy: str, stage: Stage, decisions: Sequence[Decision]) -> Estimate:
    """Estimate the mean reward of a policy at a stage."""
    own = [decision for decision in decisions if decision.stage is stage]
    weights, rewards = np.array([one.weight for one in own]), np.array([one.reward for one in own])
    direct, residuals = predict_rewards(own, stage)
    corrected = direct + weights * residuals
    clusters = [f"{one.run} {one.task}" for one in own]
    ones = np.ones(len(own))
    total, squares = float(weights.sum()), float(weights @ weights)
    return Estimate(
        policy=policy,
        stage=stage,
        attempts=len(own),
        effective=total**2 / squares if squares else 0.0,
        recorded=float(rewards.mean()),
        inverse_propensity=ratio_interval(weights * rewards, weights, clusters),
        doubly_robust=ratio_interval(corrected, ones, clusters),
        difference=ratio_interval(corrected - rewards, ones, clusters),
    )


def predict_rewards(decisions: Sequence[Decision], stage: Stage) -> tuple[np.ndarray, np.ndarray]:
    """Return the reward that a model predicts for the policy's own choices, and what the recorded rewards exceed its prediction by.

    The model of a decision is fitted to the decisions on other tasks: it must not know the reward that it corrects.
    """
    folds = [zlib.crc32(decision.task.encode()) % FOLDS for decision in decisions]
    direct, residuals = np.zeros(len(decisions)), np.zeros(len(decisions))
    for fold in sorted(set(folds)):
        others = [Observation(one.recorded, (), one.reward) for one, number in zip(decisions, folds, strict=True) if number != fold]
        model = ValueModel(stage, others, (), RECORD_VISITS)
        for place, one in enumerate(decisions):
            if folds[place] == fold:
                direct[place] = np.mean([model.predict(features) for features in one.chosen])
                residuals[place] = one.reward - model.predict(one.recorded)
    return direct, residuals


def ratio_interval(numerators: np.ndarray, denominators: np.ndarray, clusters: Sequence[str]) -> Interval | None:
    """Return the ratio of two sums with its interval over clusters, resampled with replacement; None if the denominators are all 0."""
    if not denominators.sum():
        return None
    names = sorted(set(clusters))
    places = np.array([names.index(cluster) for cluster in clusters])
    tops = np.bincount(places, weights=numerators, minlength=len(names))
    bottoms = np.bincount(places, weights=denominators, minlength=len(names))
    mean = float(tops.sum() / bottoms.sum())
    rows = np.random.default_rng(SEED).integers(0, len(names), (DRAWS, len(names)))
    sums = bottoms[rows].sum(axis=1)
    ratios = tops[rows].sum(axis=1)[sums > 0] / sums[sums > 0]
    low, high = np.quantile(ratios, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(low), mean, float(high), len(names))


def estimates_table(estimates: Sequence[Estimate]) -> Table:
    """Return one row per policy and stage."""
    columns = (
        Column("policy"),
        Column("stage"),
        Column("attempts", "count", explanation="recorded attempts with a propensity"),
        Column("effective", explanation="how many attempts of the policy itself would say as much"),
        Column("recorded", "value", explanation="mean reward of the recorded attempts"),
        Column("inverse propensity", explanation="mean reward of the policy from matching attempts alone"),
        Column("doubly robust", explanation="the same with a model for choices that no attempt recorded"),
        Column("minus recorded", explanation="doubly robust estimate minus the recorded mean"),
    )
    rows = tuple(
        (
            one.policy,
            one.stage.value,
            one.attempts,
            f"{one.effective:.1f}",
            one.recorded,
            format_interval(one.inverse_propensity) if one.is_informative else "too few match",
            format_interval(one.doubly_robust) if one.is_informative else "too few match",
            format_interval(one.difference) if one.is_informative else "too few match",
        )
        for one in estimates
    )
    note = (
        f"Brackets: 95 % interval over pairs of run and task. Fewer than {MIN_EFFECTIVE:.0f} effective attempts say nothing about a policy."
    )
    return Table("Mean reward that policies would have earned", columns, rows, note)


def format_interval(interval: Interval | None) -> str:
    """`+0.31 [+0.12 to +0.48]`; without brackets if there are too few tasks for an interval."""
    if interval is None:
        return UNKNOWN
    return f"{interval.mean:+.2f}" + (f" [{interval.low:+.2f} to {interval.high:+.2f}]" if has_bounds(interval) else "")


def estimate_json(estimate: Estimate) -> dict[str, Any]:
    """Return an estimate as an object; a figure that is unknown is null, never 0."""

    def interval_json(interval: Interval | None) -> dict[str, Any] | None:
        if interval is None or not estimate.is_informative:
            return None
        bounds = {"low": interval.low, "high": interval.high} if has_bounds(interval) else {"low": None, "high": None}
        return {"mean": interval.mean, **bounds}

    intervals = ("inverse_propensity", "doubly_robust", "difference")
    plain = {"policy": estimate.policy, "stage": estimate.stage.value, "attempts": estimate.attempts}
    figures = {"effective_attempts": estimate.effective, "recorded": estimate.recorded}
    return {**plain, **figures, **{name: interval_json(getattr(estimate, name)) for name in intervals}}
