"""The reward of one outcome: correctness first, then the clipped logarithm of the speed-up; the minimum for a kernel that cheats.

The reward is stateless: it depends on the outcome alone, not on earlier attempts, so that the samples of a group can be compared.
"""

from __future__ import annotations

from math import log

from evokernel.core.records import UNDECIDED_REASONS, Outcome
from evokernel.core.statistics import is_significant

CHEATING_REWARD = -1.0
"""The minimum: a kernel that does something no kernel needs."""
WRONG_REWARD = 0.0
"""No code, a compile error, a crash, a time-out, or wrong values."""
CORRECT_REWARD = 1.0
"""A correct kernel that is as fast as the baseline."""
SPEED_WEIGHT = 0.5
"""What a correct kernel gains or loses at most for its speed. It is below CORRECT_REWARD, so that a slow kernel beats a wrong one."""
MAX_SPEEDUP = 8.0
"""Speed-ups beyond this factor, and slowdowns beyond its inverse, are clipped."""
CHEATING_REASONS = frozenset({"forbidden", "impossible", "vetoed", "revoked", "stream", "exit"})
"""Reasons of failures that mean cheating: forbidden constructs, times that are impossible, a veto, another stream, a forged exit."""


def compute_reward(outcome: Outcome) -> float | None:
    """Return the reward from -1 to 1.5, or None if the outcome does not decide anything about the kernel.

    A correct kernel without a speed-up gets the lowest reward of a correct kernel, so that avoiding the clock does not pay.
    """
    failure = outcome.failure
    if failure is None:
        share = speed_share(outcome)
        return CORRECT_REWARD + SPEED_WEIGHT * (-1.0 if share is None else share)
    if failure.reason in UNDECIDED_REASONS:
        return None
    return CHEATING_REWARD if failure.reason in CHEATING_REASONS else WRONG_REWARD


def speed_share(outcome: Outcome) -> float | None:
    """The logarithm of the speed-up over the first baseline, from -1 to 1; 0 within the noise, None if the kernel was not compared."""
    if not outcome.speedup:
        return None
    interval = outcome.speedup_interval()
    if interval and not is_significant(interval):
        return 0.0
    return max(-1.0, min(1.0, log(outcome.speedup) / log(MAX_SPEEDUP)))
