"""The opportunities of a start point: which causes of its latency are worth a place in a context, and which one a refinement addressed."""

from __future__ import annotations

from evokernel.core.records import Attempt, Opportunity, Outcome

MAX_OPPORTUNITIES = 3
MIN_GAIN_SHARE = 0.02
"""Share of the latency that an opportunity must be worth to get a place in a context."""


def top_opportunities(start: Attempt, limit: int = MAX_OPPORTUNITIES) -> list[Opportunity]:
    """Return the largest opportunities of a start point, one of each cause."""
    profile, latency_us = start.outcome.profile, start.outcome.latency_us or 0.0
    largest: dict[str, Opportunity] = {}
    for opportunity in profile.opportunities if profile else ():
        if opportunity.gain_us > MIN_GAIN_SHARE * latency_us:
            largest.setdefault(opportunity.cause, opportunity)
    return list(largest.values())[:limit]


def main_cause(outcome: Outcome) -> str:
    """Return the largest cause of a kernel's latency; its bottleneck if the profile has no opportunities, empty if it has no profile."""
    profile = outcome.profile
    if profile is None:
        return ""
    return profile.opportunities[0].cause if profile.opportunities else profile.bottleneck


def addressed_cause(start: Outcome, result: Outcome) -> str:
    """Return the cause that a refinement addressed: the one whose gain fell most; the largest of the start point if none is known to fall.

    A cause that a profile with opportunities no longer reports has no gain left.
    """
    gains = sum_gains(start)
    remaining = sum_gains(result)
    if not (result.feasible and gains and remaining):
        return main_cause(start)
    falls = {cause: gain - remaining.get(cause, 0.0) for cause, gain in gains.items()}
    cause = max(falls, key=lambda cause: falls[cause])
    return cause if falls[cause] > 0 else main_cause(start)


def sum_gains(outcome: Outcome) -> dict[str, float]:
    """Return the microseconds that each cause of a kernel's latency is worth, over all its lines."""
    gains: dict[str, float] = {}
    for opportunity in outcome.profile.opportunities if outcome.profile else ():
        gains[opportunity.cause] = gains.get(opportunity.cause, 0.0) + opportunity.gain_us
    return gains
