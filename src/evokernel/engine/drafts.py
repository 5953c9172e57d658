"""Several drafts for one attempt: ranks them by what the surrogate forecasts or the backend estimates, and chooses the one to verify."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, tanh
from typing import NamedTuple

from evokernel.core.protocols import Executor
from evokernel.core.records import Context, Draft, Job, Outcome, Reply, Stage, Usage
from evokernel.core.state import State
from evokernel.engine.surrogate import DIGITS, FittedSurrogate, Forecast


class RankedDraft(NamedTuple):
    """A draft with what is expected of it."""

    reply: Reply
    forecast: Forecast
    reason: str = ""
    """Failure category, if the backend has no estimate for it."""


def rank_draft(state: State, context: Context, draft: RankedDraft, earlier_ids: set[str]) -> tuple[bool, bool, bool, float]:
    """Return the rank of a draft, best last: with code, new, not refused, and then by what is expected of it."""
    candidate = draft.reply.candidate
    best_us = state.best.outcome.latency_us if state.best and context.stage is Stage.REFINE else None
    return bool(candidate.files), candidate.id not in earlier_ids, not draft.reason, round(expected_result(draft.forecast, best_us), DIGITS)


def expected_result(forecast: Forecast, best_us: float | None) -> float:
    """Return the expected reward of Eq. 6 if there is a best kernel, or else the expected speed in kernels per microsecond.

    Without a forecast, kernels are assumed to be correct, and equally fast.
    """
    chance = 1.0 if forecast.p_correct is None else forecast.p_correct
    if best_us and forecast.latency_us:
        return chance * tanh(log(best_us) - log(forecast.latency_us)) - (1 - chance)
    return chance / (forecast.latency_us or 1.0)


def choose_draft(state: State, context: Context, drafts: Sequence[RankedDraft]) -> Reply:
    """Return the most promising draft, the first among equals, with the usage and the forecasts of all."""
    earlier_ids = {attempt.candidate.id for attempt in state.attempts}
    ranks = [rank_draft(state, context, draft, earlier_ids) for draft in drafts]
    chosen = ranks.index(max(ranks))
    records = tuple(
        Draft(
            candidate=draft.reply.candidate.id if draft.reply.candidate.files else "",
            p_correct=draft.forecast.p_correct,
            latency_us=draft.forecast.latency_us,
            reason=draft.reason,
            is_chosen=number == chosen,
        )
        for number, draft in enumerate(drafts)
    )
    usage = sum((draft.reply.candidate.usage for draft in drafts), start=Usage())
    reply = drafts[chosen].reply
    return reply.model_copy(update={"candidate": reply.candidate.model_copy(update={"usage": usage}), "drafts": records})


def forecast_drafts(state: State, context: Context, replies: Sequence[Reply], surrogate: FittedSurrogate) -> list[RankedDraft]:
    """Forecast each draft from its code."""
    return [RankedDraft(reply, surrogate.forecast(state.task, reply.candidate, context.start_point)) for reply in replies]


def estimate_drafts(drafts: Sequence[RankedDraft], job: Job, executor: Executor) -> list[RankedDraft]:
    """Replace forecast latencies by the backend's estimates: each draft is screened, built and estimated, but not compared with values."""
    update: dict[str, object] = {"purpose": "tuning", "baselines": (), "incumbent": None, "llm_review": {}, "tuning_trials": 0}
    jobs = [
        executor.submit(job.model_copy(update={**update, "candidate": draft.reply.candidate})) if draft.reply.candidate.files else None
        for draft in drafts
    ]
    return [with_estimate(draft, future.result()) if future else draft for draft, future in zip(drafts, jobs)]


def with_estimate(draft: RankedDraft, outcome: Outcome) -> RankedDraft:
    """Return the draft with the latency of its estimate, or the reason why it has none."""
    if outcome.feasible and outcome.latency_us:
        return draft._replace(forecast=draft.forecast._replace(latency_us=outcome.latency_us))
    reason = outcome.failure.reason if outcome.failure else "no_latency"
    return draft._replace(forecast=draft.forecast._replace(latency_us=None), reason=reason)
