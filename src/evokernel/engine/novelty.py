"""Whether a kernel is new: one that is nearly the same as an earlier attempt on its task is not worth a verification."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evokernel.core.protocols import Generator
from evokernel.core.records import Attempt, Candidate, Context, GateResult, Outcome, Reply, State

RUN = 5
"""Tokens in a run: code is compared by the runs it has, so that a moved line is not a new one."""
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|(?m:^\s*#(?!\s*(?:include|define|pragma|if|el|end|undef))[^\n]*)", re.DOTALL)
TOKEN = re.compile(r"\w+|[^\w\s]")
ASKED = 3
"""How often a generator is asked, in all, before a kernel that is not new counts as an attempt."""

Runs = frozenset[tuple[str, ...]]


def token_ngrams(code: str) -> Runs:
    """All runs of tokens, comments left out."""
    tokens = TOKEN.findall(COMMENT.sub(" ", code))
    return frozenset(tuple(tokens[i : i + RUN]) for i in range(max(1, len(tokens) - RUN + 1)))


def novelty_ratio(code: str, earlier: str) -> float:
    """The share of a kernel's runs that an earlier one does not have."""
    own = token_ngrams(code)
    return len(own - token_ngrams(earlier)) / len(own)


def find_duplicate(candidate: Candidate, attempts: Sequence[Attempt], least: float) -> Attempt | None:
    """The attempt that a candidate repeats, the nearest one; None where enough of it is new, nobody asks or nothing can be compared."""
    tried = [attempt for attempt in attempts if attempt.candidate.files]
    if not least or not tried or not candidate.files:
        return None
    shares = [novelty_ratio(candidate.code, attempt.candidate.code) for attempt in tried]
    return tried[shares.index(min(shares))] if min(shares) < least else None


def refusal(earlier: Attempt) -> Outcome:
    """In place of a verdict, for a candidate that repeats an attempt."""
    failure = earlier.outcome.failure
    how = f"failed at {failure.gate} ({failure.reason})" if failure else "was correct"
    detail = f"nearly the same as attempt {earlier.id.rpartition('/')[2]}, which {how}: write something else"
    return Outcome(gates=(GateResult(gate="write", passed=False, reason="known", detail=detail),))


def with_rejection(state: State, context: Context, reply: Reply, outcome: Outcome) -> State:
    """The state in which a generator is asked again: the refused candidate is among what was tried."""
    made = {"id": state.next_id, "run": "", "task": state.task.id, "round": state.round, "stage": context.stage}
    refused = Attempt(**made, candidate=reply.candidate, outcome=outcome, reward=-1.0)
    return State(task=state.task, attempts=(*state.attempts, refused), round=state.round)


def generate_novel(generator: Generator, state: State, context: Context, least: float) -> Reply:
    """What a generator writes; one that repeats itself is told so and asked again, and what it wrote in vain is paid for, too."""
    reply, seen = generator.write(state, context), state
    for _ in range(ASKED - 1):
        twin = find_duplicate(reply.candidate, state.attempts, least)
        if twin is None:
            break
        seen = with_rejection(seen, context, reply, refusal(twin))
        spent, reply = reply.candidate.usage, generator.write(seen, context)
        reply = reply.model_copy(update={"candidate": reply.candidate.model_copy(update={"usage": spent + reply.candidate.usage})})
    return reply
