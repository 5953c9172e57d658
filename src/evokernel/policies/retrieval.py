"""Building blocks for contexts: search the memory, pick items by value, and assemble draft and refinement contexts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from random import Random

from evokernel.core.memory_ids import make_note_id
from evokernel.core.protocols import MemoryStore, SearchHit
from evokernel.core.records import Attempt, Context, ContextItem, ItemRole, MemoryItem, MemoryKind, Stage
from evokernel.core.state import State

SEARCH_FACTORS = (16, 64, 256)
"""Search hits requested per slot. The search widens until it covers enough tasks, because all attempts on one task are equally similar."""
MAX_CARDS = 256
MAX_CHILDREN = 3
ITEMS_PER_TURN = 2
"""Items of one task (one success and one failure) that a diverse pool takes before the next task's; more if there are few tasks."""
AUXILIARY_ROLES: tuple[ItemRole, ...] = ("trace", "practice", "bottleneck", "variant")
"""Roles of the items that a refinement context shows in addition to the start point and its children; the slots cycle through them."""

ValueFunction = Callable[[Sequence[str]], Mapping[str, float]]
"""Q of each item by id. An item that is missing from the result has no value."""


@dataclass(frozen=True)
class Selector:
    """Picks the items to show from a candidate pool: epsilon-greedy over value, one decision per slot, ties go to the more similar item."""

    q_values: ValueFunction
    random: Random
    epsilon: float = 0.0
    diversity_penalty: float = 0.0
    """Deduction for each picked item of the same task, and again for each picked item of the same family with the same outcome."""
    similarity_weight: float = 0.0
    """Deduction for the least similar item of the pool, relative to the most similar one; linear in between."""
    success_bonus: float = 0.0
    """Addition for an item that shows a correct kernel."""
    exploration_bonus: ValueFunction = lambda ids: {}
    """Addition that only influences the choice; the recorded value of a shown item does not include it."""

    def pick_items(self, pool: Sequence[MemoryItem], n: int) -> list[MemoryItem]:
        """Pick n items, or all items of a smaller pool. The pool is ordered by similarity."""
        ids = [item.id for item in pool]
        q, bonus = self.q_values(ids), self.exploration_bonus(ids)
        prior = {
            item.id: self.success_bonus * bool(item.feasible) - self.similarity_weight * rank / len(ids) for rank, item in enumerate(pool)
        }
        score = {id: prior[id] + q.get(id, 0.0) + bonus.get(id, 0.0) for id in ids}
        candidates = list(pool)
        picks: list[MemoryItem] = []
        while candidates and len(picks) < n:
            if self.epsilon > 0 and self.random.random() < self.epsilon:
                best = self.random.choice(candidates)
            else:
                best = max(candidates, key=lambda item: score[item.id] - self.diversity_penalty * redundancy(item, picks))
            candidates.remove(best)
            picks.append(best)
        return picks

    def to_context_items(self, role: ItemRole, items: Iterable[MemoryItem]) -> list[ContextItem]:
        """Wrap items for a context: in this role, with their current values."""
        items = list(items)
        q = self.q_values([item.id for item in items])
        return [ContextItem(role=role, item=item, q=q.get(item.id)) for item in items]


def redundancy(item: MemoryItem, others: Iterable[MemoryItem]) -> int:
    """Count how often other items carry the same information: the same task, or the same operator family with the same outcome.

    A correct activation kernel says nothing about matrix products, so a task with both should be shown a correct kernel of each.
    """
    return sum(
        (item.task is not None and item.task == other.task) + (item.family == other.family and outcome_label(item) == outcome_label(other))
        for other in others
    )


def outcome_label(item: MemoryItem) -> str:
    """Return `correct`, the failure reason, or the item's kind if it has no outcome."""
    return "correct" if item.feasible else item.reason or item.kind


def draft_context(state: State, memory: MemoryStore, selector: Selector, top_n: int, pool_size: int, api_cards: int) -> Context:
    """Build a draft context: experiences and traces picked by value, API cards picked by `select_api_cards`.

    With a diversity penalty, the pool also contains failures and covers all operator families of the task.
    """
    mix_outcomes = selector.diversity_penalty > 0
    pool = retrieve_nearest(state, memory, pool_size, ("experience", "trace"), max_per_task=top_n, mix_outcomes=mix_outcomes)
    picks = selector.pick_items(pool, top_n)
    context_items = [entry for item in picks for entry in selector.to_context_items(item.kind, [item])]
    return Context(stage=Stage.DRAFT, items=(*select_api_cards(state, memory, picks, api_cards), *context_items))


def refine_context(state: State, memory: MemoryStore, selector: Selector, start: Attempt, top_n: int, pool_size: int) -> Context:
    """Build a refinement context: the start point, earlier refinements of it, and `top_n` auxiliary items whose roles take turns."""
    context_items = selector.to_context_items("start", memory.get([start.memory_id]))
    context_items += selector.to_context_items("child", find_children(state, memory, start))
    per_role = -(-pool_size // len(AUXILIARY_ROLES))
    pools = auxiliary_pools(state, memory, start, per_role, top_n) if top_n else {}
    for turn in range(top_n):
        used_ids = {entry.item.id for entry in context_items}
        first = turn % len(AUXILIARY_ROLES)
        for role in AUXILIARY_ROLES[first:] + AUXILIARY_ROLES[:first]:
            candidates = [item for item in pools[role] if item.id not in used_ids]
            if candidates:
                context_items += selector.to_context_items(role, selector.pick_items(candidates, 1))
                break
    return Context(stage=Stage.REFINE, start_point=start, items=tuple(context_items))


def auxiliary_pools(state: State, memory: MemoryStore, start: Attempt, k: int, max_per_task: int) -> dict[ItemRole, list[MemoryItem]]:
    """Return at most k candidate items for each auxiliary role of a refinement context."""
    profile = start.outcome.profile
    kinds: tuple[MemoryKind, ...] = ("practice", "experience", "trace")
    same_bottleneck = retrieve_nearest(state, memory, k, kinds, max_per_task, bottleneck=profile.bottleneck) if profile else []
    similar = retrieve_nearest(state, memory, 4 * k, ("trace",), max_per_task, feasible=True)
    # Complementary fast variants: other start points of this task, then the fastest kernels of similar tasks.
    others = sorted(
        (a for a in state.start_points if a.id not in (start.id, start.start_point)), key=lambda a: a.outcome.latency_us or float("inf")
    )
    own_variants = memory.get([attempt.memory_id for attempt in others[: max(1, k // 2)]])
    return {
        "trace": similar[:k],
        "practice": prioritize_family(search_cards(state, memory, "practice"), state.task.family, k),
        "bottleneck": same_bottleneck,
        "variant": [*own_variants, *sorted(similar, key=lambda item: -(item.speedup or 0.0))][:k],
    }


def retrieve_nearest(
    state: State,
    memory: MemoryStore,
    k: int,
    kinds: Sequence[MemoryKind],
    max_per_task: int,
    bottleneck: str | None = None,
    feasible: bool | None = None,
    mix_outcomes: bool = False,
) -> list[MemoryItem]:
    """Dense retrieval C(x): return the k items most similar to the task, at most `max_per_task` of each other task.

    `mix_outcomes` interleaves successes and failures, and takes the operator families of the task in turn.
    The run's own attempts on this task are excluded: the prompt's history shows them, and they would fill every slot.
    """
    families = {state.task.family, *state.task.families} if mix_outcomes else set()
    own_ids = {id for attempt in state.attempts for id in (attempt.memory_id, make_note_id(attempt.memory_id))}
    for factor in SEARCH_FACTORS:
        limit = factor * k + len(own_ids)
        hits = memory.search(state.task.source, limit, kinds, bottleneck=bottleneck, feasible=feasible)
        items = cap_per_task([hit for hit in hits if hit.item.id not in own_ids], k, max_per_task, families)
        if len(items) >= k or len(hits) < limit:
            break
    return items


def cap_per_task(hits: Sequence[SearchHit], k: int, max_per_task: int, families: Collection[str] = ()) -> list[MemoryItem]:
    """Return the first k hits in order of similarity, at most `max_per_task` of each task.

    With `families`, the operator families take turns, and successes and failures of a task are interleaved.
    The attempts on one task share its reference as their search key, so similarity cannot rank them; correctness, latency and age do.
    Value does not: it filters the retrieved items later, and would otherwise hide the newer and faster kernels of a task.
    """
    groups: dict[str, list[MemoryItem]] = {}
    for hit in hits:
        groups.setdefault(hit.item.task or f"seed {hit.item.id}", []).append(hit.item)
    per_task = [
        (interleave_outcomes if families else rank_items)(group)[:max_per_task]
        for group in round_robin_families(list(groups.values()), families)[:k]
    ]
    step = ITEMS_PER_TURN if families else max_per_task
    return [item for first in range(0, max_per_task, max(1, step)) for items in per_task for item in items[first : first + step]][:k]


def round_robin_families(groups: Sequence[list[MemoryItem]], families: Collection[str]) -> list[list[MemoryItem]]:
    """Order the tasks by similarity, but let the given families take turns before all other families.

    For a linear layer with an activation, four activations may be more similar than any matrix product, where kernels usually fail.
    """
    family_counts = Counter[str]()
    turns: list[int] = []
    for group in groups:
        family = group[0].family
        turns.append(family_counts[family] if family in families else len(groups))
        family_counts[family] += 1
    return [group for _, group in sorted(zip(turns, groups, strict=True), key=lambda pair: pair[0])]


def rank_items(group: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Order the items of one task, given oldest first: correct ones first, then by latency, then traces first, then newest first."""
    newest_first = list(reversed(group))
    return sorted(newest_first, key=lambda item: (not item.feasible, item.latency_us or float("inf"), item.kind != "trace"))


def interleave_outcomes(group: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Order the items of one task as `rank_items` does, but alternate successes and failures: failures show what to avoid."""
    ranking = rank_items(group)
    pairs = zip_longest((item for item in ranking if item.feasible), (item for item in ranking if not item.feasible))
    return [item for pair in pairs for item in pair if item]


def find_children(state: State, memory: MemoryStore, start: Attempt) -> list[MemoryItem]:
    """Return the latest refinements of a start point, newest last; an attempt without code is represented by its note."""
    refinements = [attempt for attempt in state.attempts if attempt.start_point == start.id][-MAX_CHILDREN:]
    items = [memory.get([attempt.memory_id, make_note_id(attempt.memory_id)])[:1] for attempt in refinements]
    return [item for pair in items for item in pair]


def select_api_cards(state: State, memory: MemoryStore, retrieved: Collection[MemoryItem], count: int) -> list[ContextItem]:
    """Select API cards, which have no value: the backend's static cards, then `count` others.

    The others are cards whose APIs occur in the retrieved code or in the last attempt, then cards by family and similarity.
    """
    cards = search_cards(state, memory, "api")
    code = "\n".join([*(item.code for item in retrieved), state.last_attempt.candidate.code if state.last_attempt else ""])
    others = [card for card in cards if not card.always_include]
    in_code = [card for card in others if any(contains_identifier(name, code) for name in card.apis)]
    # One slot is reserved for the most similar card, so that an API that no kernel uses yet can still be shown.
    picks = in_code[: max(count - 1, min(count, 1))]
    picked_ids = {card.id for card in picks}
    picks += prioritize_family([card for card in others if card.id not in picked_ids], state.task.family, count - len(picks))
    return [ContextItem(role="api", item=card) for card in [*(card for card in cards if card.always_include), *picks]]


def search_cards(state: State, memory: MemoryStore, kind: MemoryKind) -> list[MemoryItem]:
    """Return the backend's cards of one kind, most similar to the task first."""
    return [hit.item for hit in memory.search(state.task.source, MAX_CARDS, (kind,))]


def prioritize_family(cards: Sequence[MemoryItem], family: str, k: int) -> list[MemoryItem]:
    """Return k cards: cards on the task's family first, in at most half of the slots, then the others in their order."""
    first = [card for card in cards if family and card.family == family][: -(-k // 2)]
    first_ids = {card.id for card in first}
    return [*first, *(card for card in cards if card.id not in first_ids)][:k]


def contains_identifier(name: str, code: str) -> bool:
    """Return whether an API name occurs in code as a complete word."""
    return name in code and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", code) is not None
