"""The base of search strategies: a strategy chooses where the search goes on, and a memory policy what the prompt shows there.

So strategy and memory are two independent settings. A strategy keeps no state: it derives its tree or its population from the attempts
of the task. So a resumed or replayed run makes equal choices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random
from typing import Protocol

from evokernel.core.plugins import accepts_setting, make_plugin
from evokernel.core.protocols import MemoryStore, Policy
from evokernel.core.records import Attempt, Context, MemoryItem
from evokernel.core.state import State
from evokernel.policies.recombination import add_partner

MEMORY_POLICIES: dict[str, tuple[str, dict[str, float]]] = {
    "none": ("refine", {}),
    "similarity": ("similarity", {"diversity_penalty": 0.3}),
    "value": ("value", {}),
    "contextual": ("contextual", {}),
}
"""Policy with settings by the value of `memory`. Both `similarity` and `value` avoid similar items, so they differ only in learning."""


class MemoryPolicy(Policy, Protocol):
    """A policy that also builds the context for a start point that somebody else chose."""

    def build_context(self, state: State, memory: MemoryStore, start: Attempt | None) -> Context:
        """Build the context that refines a start point, or drafts without one."""


def make_memory_policy(memory: str, seed: int, budget: int) -> MemoryPolicy:
    """Return the policy that chooses what is shown: nothing of other tasks, similar and diverse items, or items by learned value."""
    if memory not in MEMORY_POLICIES:
        raise ValueError(f"memory = '{memory}' must be one of {', '.join(MEMORY_POLICIES)}")
    name, settings = MEMORY_POLICIES[memory]
    run_settings = {key: value for key, value in {"seed": seed, "budget": budget}.items() if accepts_setting("policy", name, key)}
    policy: MemoryPolicy = make_plugin("policy", name, **settings, **run_settings)
    return policy


class Strategy(ABC):
    """A search strategy. `memory` is `none`, `similarity`, `value` or `contextual`: which items of other tasks the prompt shows."""

    def __init__(self, memory: str = "value", budget: int = 30, seed: int = 0) -> None:
        self.memory_policy = make_memory_policy(memory, seed, budget)
        self.shows_other_tasks = memory != "none"
        self.budget, self.seed = budget, seed

    @abstractmethod
    def choose_start_point(self, state: State, random: Random) -> Attempt | None:
        """Return the kernel to refine, or None to draft another one. Asked only when the task has a feasible kernel."""

    def choose_partner(self, state: State, memory: MemoryStore, start: Attempt, random: Random) -> MemoryItem | None:
        """Return a second kernel to combine with the start point; None, as by default, to refine the start point alone."""
        return None

    def choose(self, state: State, memory: MemoryStore) -> Context:
        """Draft until a kernel is feasible; then refine the start point of the strategy, or draft independently of earlier attempts."""
        if not state.start_points:
            return self.memory_policy.build_context(state, memory, None)
        random = Random(f"{self.seed}/{state.next_id}")
        start = self.choose_start_point(state, random)
        if start is None:
            return self.draft_independently(state, memory)
        context, partner = self.memory_policy.build_context(state, memory, start), self.choose_partner(state, memory, start, random)
        return add_partner(context, partner, memory) if partner else context

    def draft_independently(self, state: State, memory: MemoryStore) -> Context:
        """Build a draft context without earlier attempts on the task, so that the draft can become a different kernel."""
        empty_state = State(task=state.task, round=state.round, omitted_attempts=len(state.attempts))
        context = self.memory_policy.build_context(empty_state, memory, None)
        items = tuple(entry for entry in context.items if entry.item.task != state.task.id)
        return context.model_copy(update={"items": items, "include_history": False, "propensity": None})

    def learn(self, state: State, attempt: Attempt, memory: MemoryStore) -> None:
        """Let the memory policy learn; the strategy itself reads the attempts."""
        self.memory_policy.learn(state, attempt, memory)
