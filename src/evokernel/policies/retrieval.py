"""Building blocks for contexts: search the memory, pick items by value, and assemble draft contexts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from random import Random

from evokernel.core.memory_ids import make_note_id
from evokernel.core.op_taxonomy import CONTRACTIONS
from evokernel.core.protocols import MemoryStore, SearchHit
from evokernel.core.records import Context, ContextItem, ItemRole, MemoryItem, MemoryKind, Propensity, Stage, Task
from evokernel.core.state import State
from evokernel.policies.choice_probability import epsilon_greedy_probability, multiply_probabilities
from evokernel.policies.excerpts import list_code_names, make_excerpt, make_failure_excerpt
from evokernel.policies.reference_cards import CARD_CHARS, needed_families, select_draft_cards

SEARCH_FACTORS = (16, 64, 256)
"""Search hits requested per slot. The search widens until it covers enough tasks, because all attempts on one task are equally similar."""
MAX_FAILURE_LINES = 20
"""Lines of a failed kernel in a draft: those at fault."""
ITEMS_PER_TURN = 2
"""Items of one task (one success and one failure) that a diverse pool takes before the next task's; more if there are few tasks."""


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
    cause_values: Callable[[str], ValueFunction] | None = None
    """Q of each item for one cause of latency; None if values do not depend on causes."""
    probabilities: list[float] = field(default_factory=list)
    """The probability of each choice so far, if choices are random; all choices of a context share the list."""

    @property
    def propensity(self) -> Propensity | None:
        """The probability of all choices so far; None if they are not random."""
        return multiply_probabilities(self.probabilities)

    def for_cause(self, cause: str) -> Selector:
        """Return the selector for items that are to help with a cause of latency."""
        return replace(self, q_values=self.cause_values(cause)) if self.cause_values and cause else self

    def pick_items(self, pool: Sequence[MemoryItem], n: int) -> list[MemoryItem]:
        """Pick n items, or all items of a smaller pool. The pool is ordered by similarity."""
        ids = [item.id for item in pool]
        q, bonus = self.q_values(ids), self.exploration_bonus(ids)
        prior = {
            item.id: self.success_bonus * bool(item.feasible) - self.similarity_weight * rank / len(ids) for rank, item in enumerate(pool)
        }
        score = {id: prior[id] + q.get(id, 0.0) + bonus.get(id, 0.0) for id in ids}

        def find_best(picks: Collection[MemoryItem]) -> MemoryItem:
            """The best item after these picks, whatever their order."""
            candidates = [item for item in pool if item not in picks]
            return max(candidates, key=lambda item: score[item.id] - self.diversity_penalty * redundancy(item, picks))

        picks: list[MemoryItem] = []
        while len(picks) < min(n, len(pool)):
            is_random = self.epsilon > 0 and self.random.random() < self.epsilon
            picks.append(self.random.choice([item for item in pool if item not in picks]) if is_random else find_best(picks))
        if self.epsilon > 0:
            self.probabilities.append(epsilon_greedy_probability(picks, len(pool), find_best, self.epsilon))
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


def draft_context(
    state: State,
    memory: MemoryStore,
    selector: Selector,
    top_n: int,
    pool_size: int,
    api_cards: int,
    part_cards: int = 0,
    card_chars: int = CARD_CHARS,
) -> Context:
    """Build a draft context: experiences and traces picked by value, reference cards picked by `select_draft_cards`.

    With a diversity penalty, the pool also contains failures and covers all operator families of the task.
    """
    mix_outcomes = selector.diversity_penalty > 0
    pool = retrieve_nearest(state, memory, pool_size, ("experience", "trace"), max_per_task=top_n, mix_outcomes=mix_outcomes)
    picks = selector.pick_items(pool, top_n)
    cards = select_draft_cards(state, memory, picks, api_cards, part_cards, card_chars)
    context_items = [entry for item in picks for entry in selector.to_context_items(item.kind, [item])]
    items = (*cards, *shorten_examples(context_items, [entry.item for entry in cards], state.task))
    return Context(stage=Stage.DRAFT, items=items, propensity=selector.propensity)


def shorten_examples(entries: Sequence[ContextItem], cards: Sequence[MemoryItem], task: Task) -> list[ContextItem]:
    """Show one function of the first correct kernel that is related: the one that uses most of what the cards explain.

    Of the other kernels a prompt shows what became of them, and of failures the lines at fault, but no code of unrelated operators.
    """
    names = list(dict.fromkeys(name for card in cards for name in card.apis or list_code_names(card.text)))
    main_example = next((entry for entry in entries if entry.item.code and entry.item.feasible and is_related(entry.item, task)), None)
    shortened = []
    for entry in entries:
        item = entry.item
        if item.code:
            excerpt = make_excerpt(item.code, names) if entry is main_example else ""
            if item.feasible is False:
                excerpt = make_failure_excerpt(item.code, item.text, MAX_FAILURE_LINES)
            entry = entry.model_copy(update={"excerpt": None if excerpt == item.code else excerpt})
        shortened.append(entry)
    return shortened


def is_related(kernel: MemoryItem, task: Task) -> bool:
    """Return whether a kernel is for the same family, or for the part that decides the latency: a contraction if the operator has one."""
    families = needed_families(task)
    return kernel.family in (task.family, *([family for family in families if family in CONTRACTIONS] or families))


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
