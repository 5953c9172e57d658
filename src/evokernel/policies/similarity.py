"""The heuristic: what is nearest is shown, the fastest kernel is refined, nothing is learned."""

from __future__ import annotations

from random import Random

from evokernel.core.protocols import MemoryStore
from evokernel.core.records import Attempt, Context, State
from evokernel.policies import retrieval

POOL = 4
"""Times `items` are looked at where variety counts."""


class SimilarityPolicy:
    """The same contexts as the value policy's, filled by similarity alone; with `variety` as there, drafts show different things."""

    def __init__(self, items: int = 4, apis: int = 3, variety: float = 0.0) -> None:
        if min(items, apis, variety) < 0:
            raise ValueError("items, apis and variety cannot be negative")
        self.items, self.apis, self.variety = items, apis, variety

    def choose(self, state: State, memory: MemoryStore) -> Context:
        """Drafts until something is feasible, then refines the fastest."""
        selector = retrieval.Selector(q_values=lambda ids: {}, random=Random(0), variety=self.variety)
        if state.best is None:
            return retrieval.draft(state, memory, selector, self.items, self.items * (POOL if self.variety else 1), self.apis)
        return retrieval.refine(state, memory, selector, state.best, self.items, self.items)

    def learn(self, state: State, attempt: Attempt, memory: MemoryStore) -> None:
        """Nothing: similarity does not change with rewards."""


plugin = SimilarityPolicy
