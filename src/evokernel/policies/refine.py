"""Iterative refinement on the task's own attempts: repairs failures from feedback, then hill-climbs from the best kernel."""

from __future__ import annotations

from random import Random

from evokernel.core.protocols import MemoryStore
from evokernel.core.records import Attempt, Context, ContextItem, Stage
from evokernel.core.state import State
from evokernel.policies import reference_cards, refinement, retrieval


class RefinePolicy:
    """Shows the kernel to repair or to improve, and earlier refinements of it. `api_cards` is the number of API cards in a draft."""

    def __init__(self, api_cards: int = 0) -> None:
        if api_cards < 0:
            raise ValueError("api_cards cannot be negative")
        self.api_cards = api_cards

    def choose(self, state: State, memory: MemoryStore) -> Context:
        """Show the last failure until a kernel is feasible, then the fastest kernel."""
        return self.build_context(state, memory, state.best)

    def build_context(self, state: State, memory: MemoryStore, start: Attempt | None) -> Context:
        """Build the context that refines a start point, or drafts without one."""
        if start is None:
            last = memory.get([state.last_attempt.memory_id]) if state.last_attempt else []
            reference = reference_cards.select_draft_cards(state, memory, last, self.api_cards) if self.api_cards else []
            return Context(stage=Stage.DRAFT, items=(*reference, *(ContextItem(role="trace", item=item) for item in last)))
        selector = retrieval.Selector(q_values=lambda ids: {}, random=Random(0))
        return refinement.refine_context(state, memory, selector, start, top_n=0, pool_size=0)

    def learn(self, state: State, attempt: Attempt, memory: MemoryStore) -> None:
        """This policy learns nothing; it uses the attempts themselves."""


plugin = RefinePolicy
