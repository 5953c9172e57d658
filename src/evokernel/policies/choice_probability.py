"""The probability with which a policy chooses a set of items. Offline evaluation weighs recorded attempts by it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from itertools import combinations
from math import prod

from evokernel.core.records import MemoryItem, Propensity

MAX_SET = 8
"""A larger set has too many orders; its order of choice then counts as part of the choice."""


def multiply_probabilities(probabilities: Sequence[float], draws: int = 0) -> Propensity | None:
    """Return the probability of several choices in a row, exact or estimated from `draws` draws; None without any."""
    return Propensity(probability=min(1.0, prod(probabilities)), draws=draws) if probabilities else None


def set_probability(ids: Sequence[str], step: Callable[[frozenset[str], str], float]) -> float:
    """Return the probability of a set that is picked one item at a time: the sum over all orders in which it could have been picked.

    `step` returns the probability that an item is picked next, after some others in any order.
    """
    if len(ids) > MAX_SET:
        return prod(step(frozenset(ids[:place]), id) for place, id in enumerate(ids))
    probability = {frozenset[str](): 1.0}
    for size in range(1, len(ids) + 1):
        for subset in map(frozenset, combinations(ids, size)):
            probability[subset] = sum(probability[subset - {id}] * step(subset - {id}, id) for id in sorted(subset))
    return probability[frozenset(ids)]


def epsilon_greedy_probability(
    picks: Sequence[MemoryItem], pool_size: int, find_best: Callable[[Collection[MemoryItem]], MemoryItem], epsilon: float
) -> float:
    """Return the exact probability of an epsilon-greedy set; `find_best` returns the greedy choice after some picks in any order."""
    items = {item.id: item for item in picks}

    @cache
    def greedy_choice(chosen: frozenset[str]) -> str:
        return find_best([items[id] for id in sorted(chosen)]).id

    def step(chosen: frozenset[str], id: str) -> float:
        return epsilon / (pool_size - len(chosen)) + (1 - epsilon) * (greedy_choice(chosen) == id)

    return set_probability(list(items), step)
