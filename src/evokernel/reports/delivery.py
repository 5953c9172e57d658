"""Decides whether a kernel is worth delivering: faster than its best baseline by more than the noise of the measurement."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from evokernel.core.records import Outcome
from evokernel.core.state import MIN_UNPAIRED_GAIN
from evokernel.core.statistics import MIN_PAIRED_GAIN
from evokernel.reports import formatting, metrics


class Speed(StrEnum):
    """A kernel's speed next to its best baseline."""

    FASTER = "faster"
    NOT_FASTER = "not faster"
    """The difference is within the noise of the measurement."""
    SLOWER = "slower"
    UNKNOWN = "not compared"
    """The kernel or every baseline has no time."""


class SpeedComparison(NamedTuple):
    """The result of comparing a kernel with its best baseline."""

    speed: Speed
    baseline: str = ""
    """Name of the best baseline; empty if there is none."""
    baseline_us: float | None = None
    speedup: float | None = None
    """Latency of the best baseline divided by the kernel's."""
    interval: tuple[float, float] | None = None
    """95 % confidence interval of the median speed-up; None for estimates, which do not vary, and for fewer than six pairs."""

    @property
    def is_faster(self) -> bool:
        return self.speed is Speed.FASTER

    def describe(self) -> str:
        """`6.00× slower than PyTorch eager`, `1.01× faster than XLA, which is within the noise`, `no baseline was timed`."""
        if self.speedup is None:
            return "no baseline was timed"
        text = formatting.describe_speed(self.speedup, formatting.baseline_label([self.baseline]))
        return f"{text}, which is within the noise" if self.speed is Speed.NOT_FASTER else text

    def describe_briefly(self) -> str:
        """`6.00× slower`, `within the noise`, `no baseline was timed`."""
        if self.speedup is None:
            return "no baseline was timed"
        return "within the noise" if self.speed is Speed.NOT_FASTER else formatting.format_speed(self.speedup)


def compare_speed(outcome: Outcome | None) -> SpeedComparison:
    """Compare a kernel with the best of its baselines."""
    best = metrics.fastest_baseline(outcome) if outcome else None
    if outcome is None or best is None:
        return SpeedComparison(Speed.UNKNOWN)
    interval = outcome.speedup_interval(best.name)
    if interval:
        low, high, margin = *interval, MIN_PAIRED_GAIN
    elif len(outcome.samples_us) == 1:  # an estimate: equal code has an equal latency
        low = high = best.speedup
        margin = 0.0
    else:
        low = high = best.speedup
        margin = max(MIN_UNPAIRED_GAIN, 2 * (outcome.noise or 0.0))
    speed = Speed.FASTER if low > 1 + margin else Speed.SLOWER if high < 1 - margin else Speed.NOT_FASTER
    return SpeedComparison(speed, best.name, best.us, best.speedup, interval)
