"""The different kernels of a task and their order, for strategies that compare them."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from evokernel.core.records import Attempt


def list_kernels(attempts: Iterable[Attempt]) -> list[Attempt]:
    """Return the first attempt of each different kernel, in order; identical code is one kernel."""
    kernels: dict[str, Attempt] = {}
    for attempt in attempts:
        if attempt.outcome.feasible:
            kernels.setdefault(attempt.candidate.id, attempt)
    return list(kernels.values())


def rank_kernels(attempts: Iterable[Attempt]) -> list[Attempt]:
    """Return the different kernels, fastest first; among equals the earlier one is first, and kernels without a latency are last."""
    return sorted(list_kernels(attempts), key=lambda kernel: kernel.outcome.latency_us or inf)
