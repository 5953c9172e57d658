"""Raw rewards of attempts (Eq. 5 and 6). Policies normalise them."""

from __future__ import annotations

from math import tanh

from evokernel.core.records import Attempt, Outcome, Stage
from evokernel.core.state import MIN_UNPAIRED_GAIN, speed_gain


def compute_reward(stage: Stage, outcome: Outcome, best: Attempt | None) -> float:
    """Return the reward of Eq. 5 while drafting and of Eq. 6 while refining; a speed difference within noise earns 0."""
    if not outcome.feasible:
        return -1.0
    if stage is Stage.DRAFT or best is None:
        return 1.0
    gain = speed_gain(outcome, best)
    is_paired = outcome.incumbent == best.candidate.id and outcome.incumbent_us
    return tanh(gain) if is_paired or abs(gain) > MIN_UNPAIRED_GAIN else 0.0
