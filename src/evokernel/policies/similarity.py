"""Similarity baseline: shows the most similar memory items, refines the fastest kernel, and learns nothing."""

from __future__ import annotations

from random import Random

from evokernel.core.protocols import MemoryStore
from evokernel.core.records import Attempt, Context
from evokernel.core.state import State
from evokernel.policies import reference_cards, refinement, retrieval

POOL_FACTOR = 4
"""Size of the candidate pool in multiples of `top_n` if `diversity_penalty` is above 0."""


class SimilarityPolicy:
    """Builds the same contexts as the value policy but ranks by similarity only. The settings work as in the value policy."""

    def __init__(
        self,
        top_n: int = 4,
        api_cards: int = 3,
        part_cards: int = 12,
        card_chars: int = reference_cards.CARD_CHARS,
        diversity_penalty: float = 0.0,
    ) -> None:
        if min(top_n, api_cards, part_cards, card_chars, diversity_penalty) < 0:
            raise ValueError("top_n, api_cards, part_cards, card_chars and diversity_penalty cannot be negative")
        self.top_n, self.diversity_penalty = top_n, diversity_penalty
        self.api_cards, self.part_cards, self.card_chars = api_cards, part_cards, card_chars

    def choose(self, state: State, memory: MemoryStore) -> Context:
        """Draft until a kernel is feasible, then refine the fastest kernel."""
        return self.build_context(state, memory, state.best)

    def build_context(self, state: State, memory: MemoryStore, start: Attempt | None) -> Context:
        """Build the context that refines a start point, or drafts without one."""
        selector = retrieval.Selector(q_values=lambda ids: {}, random=Random(0), diversity_penalty=self.diversity_penalty)
        if start is None:
            pool_size = self.top_n * (POOL_FACTOR if self.diversity_penalty else 1)
            return retrieval.draft_context(state, memory, selector, self.top_n, pool_size, self.api_cards, self.part_cards, self.card_chars)
        return refinement.refine_context(state, memory, selector, start, self.top_n, self.top_n, self.part_cards, self.card_chars)

    def learn(self, state: State, attempt: Attempt, memory: MemoryStore) -> None:
        """This policy learns nothing: rewards do not change similarity."""


plugin = SimilarityPolicy
