"""Pass@k: every attempt is a fresh draft that remembers nothing."""

from __future__ import annotations

from evokernel.core.errors import UserError
from evokernel.core.protocols import MemoryStore
from evokernel.core.records import Attempt, Context, ContextItem, Stage, State
from evokernel.policies import retrieval


class PassKPolicy:
    """The task alone; `demonstration` adds one memory item by its id, `bundle` the backend's static API cards."""

    def __init__(self, demonstration: str = "", bundle: bool = False) -> None:
        self.demonstration, self.bundle = demonstration, bundle

    def choose(self, state: State, memory: MemoryStore) -> Context:
        """Always a draft, always the same context."""
        blank = State(task=state.task, round=state.round)
        cards = retrieval.api_cards(blank, memory, (), 0) if self.bundle else []
        shown = memory.get([self.demonstration]) if self.demonstration else []
        if self.demonstration and not shown:
            raise UserError(f"policy.demonstration '{self.demonstration}' is no item of this memory; evokernel memory list shows the ids")
        return Context(stage=Stage.DRAFT, history=False, items=(*cards, *(ContextItem(role=item.kind, item=item) for item in shown)))

    def learn(self, state: State, attempt: Attempt, memory: MemoryStore) -> None:
        """Nothing."""


plugin = PassKPolicy
