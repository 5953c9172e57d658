"""What an attempt earned, raw: policies normalise for themselves."""

from __future__ import annotations

from math import hypot, log, tanh

from evokernel.core.records import Attempt, Outcome, Stage

LEAST_NOISE = 0.02  # a gain of two per cent cannot be told from chance on any machine we measured


def reward(stage: Stage, outcome: Outcome, best: Attempt | None) -> float:
    """Eq. 5 while drafting, Eq. 6 while refining; a gain inside the noise band earns nothing."""
    if not outcome.feasible:
        return -1.0
    if stage is Stage.DRAFT or best is None:
        return 1.0
    if not outcome.latency_us or not best.outcome.latency_us:
        return 0.0
    gain = log(best.outcome.latency_us) - log(outcome.latency_us)
    band = max(LEAST_NOISE, hypot(outcome.noise or 0.0, best.outcome.noise or 0.0))
    return tanh(gain) if abs(gain) > band else 0.0
