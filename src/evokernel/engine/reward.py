"""What an attempt earned, raw: policies normalise for themselves."""

from __future__ import annotations

from math import tanh

from evokernel.core.records import Attempt, Outcome, Stage
from evokernel.core.statistics import LEAST_NOISE, speed_gain


def reward(stage: Stage, outcome: Outcome, best: Attempt | None) -> float:
    """Eq. 5 while drafting, Eq. 6 while refining, by the times taken in turn with the best; what cannot be told apart earns nothing."""
    if not outcome.feasible:
        return -1.0
    if stage is Stage.DRAFT or best is None:
        return 1.0
    found = speed_gain(outcome, best)
    is_paired = outcome.incumbent == best.candidate.id and outcome.incumbent_us
    return tanh(found) if is_paired or abs(found) > LEAST_NOISE else 0.0
