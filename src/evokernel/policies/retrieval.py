"""How a context is put together from memory: the building blocks every policy that retrieves shares."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from random import Random

from evokernel.core.protocols import MemoryStore, SearchHit
from evokernel.core.records import Attempt, Context, ContextItem, ItemRole, MemoryItem, MemoryKind, Stage, State

ASKED = (16, 64, 256)  # hits asked for per place, until enough tasks are among them: many attempts on one task are equally near
MOST_CARDS = 256
MOST_CHILDREN = 3
MIXED = 2
"""Items of one task in a pool for variety, one that went well and one that did not, before the next task's; more where tasks are few."""
AUXILIARY: tuple[ItemRole, ...] = ("trace", "practice", "bottleneck", "variant")
"""What a refining context shows besides the start point and its children; its slots go round these roles."""

Worth = Callable[[Sequence[str]], Mapping[str, float]]
"""Q of items by id; an item that is missing from the answer is not valued."""


@dataclass(frozen=True)
class Selector:
    """Filters candidates down to what is shown: epsilon-greedy over worth, one decision per slot, ties to the earlier candidate."""

    q_values: Worth
    random: Random
    epsilon: float = 0.0
    variety: float = 0.0
    """What an item is worth less for each one taken before it of the same task, and again for each of the same family that ended alike."""
    nearness: float = 0.0
    """What the farthest of a pool is worth less than the nearest, to begin with."""
    proven: float = 0.0
    """What an item that tells of a correct kernel is worth more than others, to begin with."""
    exploration_bonus: Worth = lambda ids: {}
    """Added to worth when it is chosen by, not when it is told: hope for what few have tried."""

    def pick(self, pool: Sequence[MemoryItem], n: int) -> list[MemoryItem]:
        """n of the pool, or all of it when it holds fewer; the pool's order is similarity."""
        ids = [item.id for item in pool]
        q, sway = self.q_values(ids), self.exploration_bonus(ids)
        start = {item.id: self.proven * bool(item.feasible) - self.nearness * at / len(ids) for at, item in enumerate(pool)}
        promise = {id: start[id] + q.get(id, 0.0) + sway.get(id, 0.0) for id in ids}
        left = list(pool)
        chosen: list[MemoryItem] = []
        while left and len(chosen) < n:
            explore = self.epsilon > 0 and self.random.random() < self.epsilon
            best = self.random.choice(left) if explore else max(left, key=lambda m: promise[m.id] - self.variety * redundancy(m, chosen))
            left.remove(best)
            chosen.append(best)
        return chosen

    def show(self, role: ItemRole, items: Iterable[MemoryItem]) -> list[ContextItem]:
        """Items in a role, with what they are worth now."""
        items = list(items)
        q = self.q_values([item.id for item in items])
        return [ContextItem(role=role, item=item, q=q.get(item.id)) for item in items]


def redundancy(item: MemoryItem, others: Iterable[MemoryItem]) -> int:
    """How often others tell the same already: of the same task, or of the same kind of operator, ended in the same way.

    That an activation went well says nothing about matrix products: a task made of both wants to see a good kernel of each.
    """
    return sum(
        (item.task is not None and item.task == other.task) + (item.family == other.family and ending(item) == ending(other))
        for other in others
    )


def ending(item: MemoryItem) -> str:
    """How what an item tells of went."""
    return "correct" if item.feasible else item.reason or item.kind


def draft(state: State, memory: MemoryStore, selector: Selector, items: int, pool: int, apis: int) -> Context:
    """Experiences and traces chosen by worth, API cards by the hybrid rule; where variety counts, of failures and of all parts, too."""
    candidates = nearest(state, memory, pool, ("experience", "trace"), most_per_task=items, mixed=selector.variety > 0)
    chosen = selector.pick(candidates, items)
    shown = [entry for item in chosen for entry in selector.show(item.kind, [item])]
    return Context(stage=Stage.DRAFT, items=(*api_cards(state, memory, chosen, apis), *shown))


def refine(state: State, memory: MemoryStore, selector: Selector, start: Attempt, items: int, pool: int) -> Context:
    """The start point, what was already tried from it, and `items` auxiliary ones, the roles taking turns."""
    shown = selector.show("start", memory.get([start.memory_id]))
    shown += selector.show("child", children(state, memory, start))
    each = -(-pool // len(AUXILIARY))
    pools = auxiliary(state, memory, start, each, items) if items else {}
    for turn in range(items):
        taken = {entry.item.id for entry in shown}
        first = turn % len(AUXILIARY)
        for role in AUXILIARY[first:] + AUXILIARY[:first]:
            left = [item for item in pools[role] if item.id not in taken]
            if left:
                shown += selector.show(role, selector.pick(left, 1))
                break
    return Context(stage=Stage.REFINE, start_point=start, items=tuple(shown))


def auxiliary(state: State, memory: MemoryStore, start: Attempt, k: int, most_per_task: int) -> dict[ItemRole, list[MemoryItem]]:
    """Candidates for each role of a refining context, k or fewer."""
    profile = start.outcome.profile
    kinds: tuple[MemoryKind, ...] = ("practice", "experience", "trace")
    matched = nearest(state, memory, k, kinds, most_per_task, bottleneck=profile.bottleneck) if profile else []
    near = nearest(state, memory, 4 * k, ("trace",), most_per_task, feasible=True)
    # Complementary fast variants: this task's other start points, then the fastest kernels of the tasks nearby.
    others = sorted(
        (a for a in state.start_points if a.id not in (start.id, start.start_point)), key=lambda a: a.outcome.latency_us or float("inf")
    )
    own = memory.get([attempt.memory_id for attempt in others[: max(1, k // 2)]])
    return {
        "trace": near[:k],
        "practice": by_category(cards(state, memory, "practice"), state.task.family, k),
        "bottleneck": matched,
        "variant": [*own, *sorted(near, key=lambda item: -(item.speedup or 0.0))][:k],
    }


def nearest(
    state: State,
    memory: MemoryStore,
    k: int,
    kinds: Sequence[MemoryKind],
    most_per_task: int,
    bottleneck: str | None = None,
    feasible: bool | None = None,
    mixed: bool = False,
) -> list[MemoryItem]:
    """Dense retrieval C(x): the k nearest items to the task, at most so many from one other task; `mixed`: what failed there, too, and the
    families that the task is made of in turn.

    This run's own attempts on the task are left out: the generator is told about them anyway, and they would fill every place.
    """
    parts = {state.task.family, *state.task.families} if mixed else set()
    own = {id for attempt in state.attempts for id in (attempt.memory_id, f"{attempt.memory_id}/note")}
    for times in ASKED:
        asked = times * k + len(own)
        hits = memory.search(state.task.source, asked, kinds, bottleneck=bottleneck, feasible=feasible)
        found = cap_per_task([hit for hit in hits if hit.item.id not in own], k, most_per_task, parts)
        if len(found) >= k or len(hits) < asked:
            break
    return found


def cap_per_task(hits: Sequence[SearchHit], k: int, most_per_task: int, parts: Collection[str] = ()) -> list[MemoryItem]:
    """The first k hits in order of similarity, each task's share bounded; with `parts`, mixed as a task of these families wants them.

    The attempts on one task share its reference as their key, so similarity cannot tell them apart: being correct, fast and new does.
    Worth does not: it filters what retrieval finds, and would otherwise keep a task's newer and faster kernels from ever being found.
    """
    groups: dict[str, list[MemoryItem]] = {}
    for hit in hits:
        groups.setdefault(hit.item.task or f"seed {hit.item.id}", []).append(hit.item)
    chosen = [
        (interleave_outcomes if parts else rank_items)(group)[:most_per_task]
        for group in round_robin_families(list(groups.values()), parts)[:k]
    ]
    each = MIXED if parts else most_per_task
    return [item for first in range(0, most_per_task, max(1, each)) for items in chosen for item in items[first : first + each]][:k]


def round_robin_families(groups: Sequence[list[MemoryItem]], parts: Collection[str]) -> list[list[MemoryItem]]:
    """The tasks found, nearest first, but families that are parts taking turns before all others.

    Of a linear layer with an activation, four activations may be nearer than any matrix product, which is what its kernel fails by.
    """
    met = Counter[str]()
    turns: list[int] = []
    for group in groups:
        family = group[0].family
        turns.append(met[family] if family in parts else len(groups))
        met[family] += 1
    return [group for _, group in sorted(zip(turns, groups, strict=True), key=lambda pair: pair[0])]


def rank_items(group: Sequence[MemoryItem]) -> list[MemoryItem]:
    """One task's items, given oldest first, the ones that tell most first."""
    newest_first = list(reversed(group))
    return sorted(newest_first, key=lambda item: (not item.feasible, item.latency_us or float("inf"), item.kind != "trace"))


def interleave_outcomes(group: Sequence[MemoryItem]) -> list[MemoryItem]:
    """The same, what went well and what did not taking turns: a failure tells what to leave alone, also elsewhere."""
    ordered = rank_items(group)
    pairs = zip_longest((item for item in ordered if item.feasible), (item for item in ordered if not item.feasible))
    return [item for pair in pairs for item in pair if item]


def children(state: State, memory: MemoryStore, start: Attempt) -> list[MemoryItem]:
    """What was already tried from a start point, newest last; a child that left no code is shown by its note."""
    tried = [attempt for attempt in state.attempts if attempt.start_point == start.id][-MOST_CHILDREN:]
    found = [memory.get([attempt.memory_id, f"{attempt.memory_id}/note"])[:1] for attempt in tried]
    return [item for items in found for item in items]


def api_cards(state: State, memory: MemoryStore, retrieved: Collection[MemoryItem], apis: int) -> list[ContextItem]:
    """API knowledge, not valued: the backend's bundle, then cards named in retrieved code, then by category and meaning."""
    found = cards(state, memory, "api")
    code = "\n".join([*(item.code for item in retrieved), state.last_attempt.candidate.code if state.last_attempt else ""])
    others = [card for card in found if not card.always_include]
    named = [card for card in others if any(occurs(name, code) for name in card.apis)]
    # One place stays for the nearest card, so that what nobody has used yet can still be found.
    chosen = named[: max(apis - 1, min(apis, 1))]
    taken = {card.id for card in chosen}
    chosen += by_category([card for card in others if card.id not in taken], state.task.family, apis - len(chosen))
    return [ContextItem(role="api", item=card) for card in [*(card for card in found if card.always_include), *chosen]]


def cards(state: State, memory: MemoryStore, kind: MemoryKind) -> list[MemoryItem]:
    """The backend's knowledge of a kind, nearest to the task first."""
    return [hit.item for hit in memory.search(state.task.source, MOST_CARDS, (kind,))]


def by_category(found: Sequence[MemoryItem], family: str, k: int) -> list[MemoryItem]:
    """k of the cards found: those on the task's family first, in up to half of the places, then the others in their order."""
    first = [card for card in found if family and card.family == family][: -(-k // 2)]
    taken = {card.id for card in first}
    return [*first, *(card for card in found if card.id not in taken)][:k]


def occurs(name: str, code: str) -> bool:
    """Whether an API name stands in code as a whole word."""
    return name in code and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", code) is not None
