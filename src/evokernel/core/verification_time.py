"""Estimates how long a verification in parts takes. The figures of each backend were fitted to measurements of the suites."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # every candidate process loads this module and must not wait for pydantic
    from evokernel.core.records import Task


class VerificationTime(NamedTuple):
    """CPU seconds of a verification at size `full`, by the work of the task. benchmarks/fit_verification_time.py computes the figures."""

    base_s: float
    """With 10⁹ arithmetic operations of one family."""
    exponent: float
    """Of the number of operations."""
    family_factor: float
    """How many times longer it takes with each further family of operations."""
    convolution_factor: float
    """How many times longer it takes if the task contains a convolution."""
    spread: float
    """Nine of ten measured times differ from the estimate by at most this factor."""

    def estimate_s(self, task: Task) -> float:
        """Return the estimate for a task."""
        work, families, convolutions = list_features(task)
        return self.base_s * math.exp(self.exponent * work) * self.family_factor**families * self.convolution_factor**convolutions


def list_features(task: Task) -> tuple[float, int, int]:
    """Return what the time depends on: the logarithm of the operations in 10⁹ (those of a task without arithmetic count as 10⁶), the
    families of operations but one, and whether one of them is a convolution."""
    families = {*task.families} or {task.category}
    return math.log(max(task.work.flops, 1e6) / 1e9), len(families) - 1, int("convolution" in families)
