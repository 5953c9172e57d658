"""Pass@k baseline: every attempt is an independent draft without history."""

from __future__ import annotations

from evokernel.core.errors import UserError
from evokernel.core.protocols import MemoryStore
from evokernel.core.records import Attempt, Context, ContextItem, Stage
from evokernel.core.state import State
from evokernel.policies import reference_cards


class PassKPolicy:
    """Shows the task only. `demonstration` adds one memory item by its id; `static_cards` adds the backend's static API cards."""

    def __init__(self, demonstration: str = "", static_cards: bool = False) -> None:
        self.demonstration, self.static_cards = demonstration, static_cards

    def choose(self, state: State, memory: MemoryStore) -> Context:
        """Return a draft context; it is the same for every attempt."""
        state_without_attempts = State(task=state.task, round=state.round)
        reference = reference_cards.select_draft_cards(state_without_attempts, memory, (), 0) if self.static_cards else []
        demonstrations = memory.get([self.demonstration]) if self.demonstration else []
        if self.demonstration and not demonstrations:
            raise UserError(
                f"policy.demonstration '{self.demonstration}' is not an item of this memory bank. "
                "List the item ids with: evokernel memory list"
            )
        items = (*reference, *(ContextItem(role=item.kind, item=item) for item in demonstrations))
        return Context(stage=Stage.DRAFT, include_history=False, items=items)

    def learn(self, state: State, attempt: Attempt, memory: MemoryStore) -> None:
        """Pass@k learns nothing."""


plugin = PassKPolicy
