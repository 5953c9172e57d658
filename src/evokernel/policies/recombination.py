"""Recombination: a second kernel that the generator is to combine with the start point, of the same task or of one that shares a part."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from evokernel.core.protocols import MemoryStore
from evokernel.core.records import Attempt, Context, ContextItem, MemoryItem, Stage
from evokernel.core.state import State
from evokernel.policies.reference_cards import needed_families
from evokernel.policies.retrieval import retrieve_nearest

KERNEL_POOL = 16
"""Nearest correct kernels of other tasks among which one that shares a part is looked for."""


def check_rate(recombination: float) -> float:
    """Return the share of refinements that are to combine two kernels, or raise ValueError if it is no share."""
    if not 0 <= recombination <= 1:
        raise ValueError(f"recombination = {recombination} must lie between 0 and 1")
    return recombination


def pick_partner(
    state: State, memory: MemoryStore, start: Attempt, others: Sequence[Attempt], shares_parts: bool, random: Random
) -> MemoryItem | None:
    """Pick one of the other kernels of the task or, with `shares_parts`, the nearest one of a task with a common part, all equally likely.

    Kernels with the code of the start point do not count, and a kernel that memory does not have cannot be shown.
    """
    own = memory.get([other.memory_id for other in others if other.candidate.files != start.candidate.files])
    candidates = [*own, *(find_part_kernels(state, memory)[:1] if shares_parts else [])]
    return random.choice(candidates) if candidates else None


def find_part_kernels(state: State, memory: MemoryStore) -> list[MemoryItem]:
    """Return correct kernels of other tasks whose family is a part of this task, nearest first."""
    families = needed_families(state.task)
    kernels = retrieve_nearest(state, memory, KERNEL_POOL, ("trace",), max_per_task=1, feasible=True)
    return [kernel for kernel in kernels if kernel.task != state.task.id and kernel.family in families]


def add_partner(context: Context, partner: MemoryItem, memory: MemoryStore) -> Context:
    """Add the second kernel to a context with its value, if items have values there; an item is shown once, so another role of it ends."""
    has_values = any(entry.q is not None for entry in context.items)
    q = memory.values([partner.id], Stage.REFINE)[partner.id].q if has_values else None
    others = tuple(entry for entry in context.items if entry.item.id != partner.id)
    return context.model_copy(update={"items": (*others, ContextItem(role="partner", item=partner, q=q))})
