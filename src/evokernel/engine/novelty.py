"""Duplicate filter: a kernel that nearly equals an earlier attempt on its task is not verified, and the generator is asked again."""

from __future__ import annotations

from collections.abc import Sequence

from evokernel.core.code_text import novelty_ratio
from evokernel.core.protocols import Generator
from evokernel.core.records import TRANSIENT_REASONS, Attempt, Candidate, Context, GateResult, Outcome, Reply, Usage
from evokernel.core.state import State

MAX_REQUESTS = 3
"""Requests to the generator, in total, before a duplicate counts as an attempt."""


def find_duplicate(candidate: Candidate, attempts: Sequence[Attempt], min_novelty: float) -> Attempt | None:
    """Return the attempt most similar to a candidate whose novelty is below `min_novelty`; None if there is none or the filter is off."""
    with_code = [attempt for attempt in attempts if attempt.candidate.files]
    if not min_novelty or not with_code or not candidate.files:
        return None
    ratios = [novelty_ratio(candidate.code, attempt.candidate.code) for attempt in with_code]
    return with_code[ratios.index(min(ratios))] if min(ratios) < min_novelty else None


def find_identical(candidate: Candidate, attempts: Sequence[Attempt]) -> Attempt | None:
    """Return the latest attempt with exactly this kernel whose outcome another verification would repeat; None if there is none."""
    for attempt in reversed(attempts):
        failure = attempt.outcome.failure
        is_verified = attempt.candidate.files and not (failure and (failure.gate == "write" or failure.reason in TRANSIENT_REASONS))
        if is_verified and attempt.candidate.id == candidate.id:
            return attempt
    return None


def reuse_outcome(earlier: Attempt) -> Outcome:
    """Return the outcome of an identical kernel; it names the attempt that was verified, and its model calls are paid once."""
    return earlier.outcome.model_copy(update={"reused_from": earlier.outcome.reused_from or earlier.id, "usage": Usage()})


def duplicate_outcome(earlier: Attempt) -> Outcome:
    """Return the outcome of a candidate that duplicates an earlier attempt; it names that attempt, counted from 1."""
    failure = earlier.outcome.failure
    result = f"failed at gate {failure.gate} ({failure.reason})" if failure else "was correct"
    number = int(earlier.id.rpartition("/")[2]) + 1
    detail = f"This kernel is nearly identical to attempt {number}, which {result}. Write a different kernel."
    return Outcome(gates=(GateResult(gate="write", passed=False, reason="duplicate", detail=detail),))


def with_rejection(state: State, context: Context, reply: Reply, outcome: Outcome) -> State:
    """Return the state with the rejected candidate as its last attempt, for asking the generator again."""
    fields = {"id": state.next_id, "run": "", "task": state.task.id, "round": state.round, "stage": context.stage}
    rejection = Attempt(**fields, candidate=reply.candidate, outcome=outcome, reward=-1.0)
    return State(task=state.task, attempts=(*state.attempts, rejection), round=state.round)


def generate_novel(generator: Generator, state: State, context: Context, min_novelty: float) -> Reply:
    """Ask the generator for a candidate; reject duplicates and ask again. The reply's usage includes the rejected candidates."""
    reply, visible_state = generator.write(state, context), state
    for _ in range(MAX_REQUESTS - 1):
        duplicate = find_duplicate(reply.candidate, state.attempts, min_novelty)
        if duplicate is None:
            break
        visible_state = with_rejection(visible_state, context, reply, duplicate_outcome(duplicate))
        reply = join_replies(reply, generator.write(visible_state, context))
    return reply


def join_replies(earlier: Reply, later: Reply) -> Reply:
    """Return the later reply with the cost, the trials and the opened memory items of both."""
    candidate = later.candidate.model_copy(update={"usage": earlier.candidate.usage + later.candidate.usage})
    if earlier.tool_use is None or later.tool_use is None:
        return later.model_copy(update={"candidate": candidate})
    opened = {ref.id: ref for ref in (*(earlier.opened_items or ()), *(later.opened_items or ()))}
    tool_use = earlier.tool_use + later.tool_use
    return later.model_copy(update={"candidate": candidate, "opened_items": tuple(opened.values()), "tool_use": tool_use})
