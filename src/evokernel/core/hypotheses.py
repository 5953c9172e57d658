"""Hypotheses about what bounds a kernel: what removing each cause of its latency would save, corrected by what earlier attempts saved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from evokernel.core.opportunities import addressed_cause, top_opportunities
from evokernel.core.records import Attempt, Hypothesis
from evokernel.core.state import State, speed_gain

PRIOR_SHARE, PRIOR_CHANCE, PRIOR_REFINEMENTS = 0.5, 0.75, 2
"""Share of a predicted gain that a refinement is expected to bring, its chance to be correct, and how many refinements these count for."""
MAX_SHARE = 2.0
"""Largest share of a predicted gain that one refinement counts for."""


class Prediction(NamedTuple):
    """A gain that was predicted for a refinement, and what came of it."""

    attempt: Attempt
    cause: str
    predicted_us: float
    """Gain that the profile of its start point predicted for the cause."""
    gain_us: float | None
    """Gain over its start point, 0 if it is within the noise; None if the kernel failed or was not timed."""

    @property
    def share(self) -> float | None:
        """Share of the predicted gain that came true: 0 for a slower kernel, None without a gain."""
        return None if self.gain_us is None else min(MAX_SHARE, max(0.0, self.gain_us / self.predicted_us))


class Rank(NamedTuple):
    """A hypothesis with the start point that it is about, and the latency that it leads one to expect."""

    start: Attempt
    hypothesis: Hypothesis
    latency_us: float


def list_predictions(attempts: Sequence[Attempt]) -> list[Prediction]:
    """Return the refinements whose start points have opportunities, each with the cause that it was to address.

    The cause is that of its plan, or the focus of its context, or else the one whose gain fell most.
    """
    by_id = {attempt.id: attempt for attempt in attempts}
    predictions = []
    for attempt in attempts:
        start = by_id.get(attempt.start_point or "")
        predicted = {one.cause: one.gain_us for one in top_opportunities(start)} if start else {}
        if start is None or not predicted:
            continue
        cause = intended_cause(attempt) or addressed_cause(start.outcome, attempt.outcome)
        if cause in predicted:
            predictions.append(Prediction(attempt, cause, predicted[cause], significant_gain_us(start, attempt)))
    return predictions


def intended_cause(attempt: Attempt) -> str:
    """Return the cause that a plan or the policy named before the attempt; empty if neither did."""
    return next((step.cause for step in attempt.steps if step.cause), attempt.focus.cause if attempt.focus else "")


def significant_gain_us(start: Attempt, attempt: Attempt) -> float | None:
    """Return what a correct refinement saved, 0 if the difference is within the noise; None if a latency is unknown."""
    before, after = start.outcome.latency_us, attempt.outcome.latency_us
    if not attempt.outcome.feasible or before is None or after is None:
        return None
    return before - after if speed_gain(attempt.outcome, start) else 0.0


def make_hypothesis(cause: str, predicted_us: float, predictions: Iterable[Prediction]) -> Hypothesis:
    """Correct the gain predicted for a cause by what came of earlier predictions for it; a few of them count little against the prior."""
    own = [one for one in predictions if one.cause == cause]
    shares = [one.share for one in own if one.share is not None]
    share = (PRIOR_SHARE * PRIOR_REFINEMENTS + sum(shares)) / (PRIOR_REFINEMENTS + len(shares))
    chance = (PRIOR_CHANCE * PRIOR_REFINEMENTS + len(shares)) / (PRIOR_REFINEMENTS + len(own))
    return Hypothesis(
        cause=cause,
        predicted_us=predicted_us,
        expected_us=predicted_us * share * chance,
        refinements=len(own),
        correct=len(shares),
        realised_share=sum(shares) / len(shares) if shares else None,
    )


def rank_hypotheses(state: State) -> list[Rank]:
    """Return the hypotheses about all start points of a task, the one that leads to the lowest expected latency first."""
    predictions = list_predictions(state.attempts)
    ranks = []
    for start in state.start_points:
        latency_us = start.outcome.latency_us or 0.0
        for opportunity in top_opportunities(start) if latency_us else ():
            hypothesis = make_hypothesis(opportunity.cause, opportunity.gain_us, predictions)
            ranks.append(Rank(start, hypothesis, latency_us - hypothesis.expected_us))
    return sorted(ranks, key=lambda rank: rank.latency_us)
