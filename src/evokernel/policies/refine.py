"""Iterative refinement on the task's own attempts: repair from feedback, then hill-climb from the best. No other task is seen."""

from __future__ import annotations

from random import Random

from evokernel.core.protocols import MemoryStore
from evokernel.core.records import Attempt, Context, ContextItem, Stage, State
from evokernel.policies import retrieval


class RefinePolicy:
    """Shows the kernel to repair or to improve, and what was already tried from it; `apis` adds that many API cards to drafts."""

    def __init__(self, apis: int = 0) -> None:
        if apis < 0:
            raise ValueError("apis cannot be negative")
        self.apis = apis

    def choose(self, state: State, memory: MemoryStore) -> Context:
        """The last failure while nothing is feasible, the fastest kernel after that."""
        if state.best is None:
            last = memory.get([state.last_attempt.memory_id]) if state.last_attempt else []
            cards = retrieval.api_cards(state, memory, last, self.apis) if self.apis else []
            return Context(stage=Stage.DRAFT, items=(*cards, *(ContextItem(role="trace", item=item) for item in last)))
        plain = retrieval.Selector(q_values=lambda ids: {}, random=Random(0))
        return retrieval.refine(state, memory, plain, state.best, items=0, pool=0)

    def learn(self, state: State, attempt: Attempt, memory: MemoryStore) -> None:
        """Nothing: the attempts themselves are all it goes by."""


plugin = RefinePolicy
