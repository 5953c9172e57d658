"""Building blocks for contexts: search the memory, pick items by value, choose knowledge cards, and assemble draft contexts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from random import Random

from evokernel.core.memory_ids import make_note_id
from evokernel.core.op_taxonomy import CONTRACTIONS, list_needed_kinds
from evokernel.core.protocols import MemoryStore, SearchHit
from evokernel.core.records import Context, ContextItem, ItemRole, MemoryItem, MemoryKind, Propensity, Stage, Task
from evokernel.core.state import State
from evokernel.policies.choice_probability import epsilon_greedy_probability, multiply_probabilities
from evokernel.policies.excerpts import contains_identifier, list_code_names, make_excerpt, make_failure_excerpt

SEARCH_FACTORS = (16, 64, 256)
"""Search hits requested per slot. The search widens until it covers enough tasks, because all attempts on one task are equally similar."""
MAX_FAILURE_LINES = 20
"""Lines of a failed kernel in a draft: those at fault."""
ITEMS_PER_TURN = 2
"""Items of one task (one success and one failure) that a diverse pool takes before the next task's; more if there are few tasks."""
MAX_CARDS = 1024
PRODUCT_CAUSE = "product_on_vector"
"""The cause of latency that the most important cards on a contraction remove."""
CONTRACTION_CARDS, OTHER_CARDS = 10, 3
"""Most cards on one contraction, and on any other part."""
CARD_CHARS = 5_000
"""Characters of the cards in a context, without static cards and without worked examples and what these cite."""
WORKED_EXAMPLE_CHARS = 2_400
"""A longer card is a worked example of a hard construct; a draft shows one at most."""

NARROW_TYPES = frozenset({"float16", "bfloat16", "int8", "uint8"})
"""Types of tensors for which an example on floats has to be changed, so that a context explains its APIs too."""

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


def search_cards(state: State, memory: MemoryStore, *kinds: MemoryKind) -> list[MemoryItem]:
    """Return the backend's cards of these kinds that suit the work of the task, most similar to the task first."""
    cards = (hit.item for hit in memory.search(state.task.source, MAX_CARDS, kinds))
    return [card for card in cards if card.suits_work(state.task)]


def needed_families(task: Task) -> list[str]:
    """Return the families of all parts of a task, contractions first: attention needs products and softmax."""
    return list_needed_kinds(task.family, task.families)


def is_relevant(card: MemoryItem, families: Collection[str]) -> bool:
    """Return whether a card is about any of these families, or about all operators."""
    own_families = {card.family, *card.families} - {""}
    return not own_families or bool(own_families & set(families))


def select_part_cards(
    families: Sequence[str],
    cards: Sequence[MemoryItem],
    count: int,
    max_chars: int,
    examples: Sequence[MemoryItem] = (),
    is_complete: bool = False,
) -> list[MemoryItem]:
    """Select cards for every part of an operator, which take turns.

    Cards that explain what the shown examples use come first, then those for large work only if such an example is shown, then those that
    bring products to the matrix unit, then those on the part itself, then those that name it as a further family. With a worked example,
    which is left to `find_worked_example`, no API card is on another way to multiply, and each other part has one card at most. An example
    that `is_complete` needs no card on its APIs.
    """
    turns: list[tuple[int, int, MemoryItem]] = []
    prefers_large = any(card.min_flops for card in examples)
    if any(card.family in CONTRACTIONS for card in examples):
        explaining = () if is_complete else examples
        cards = [card for card in cards if explains_examples(card, explaining) or card.kind == "practice" or not is_on_contraction(card)]
        families = [family for family in families if family in CONTRACTIONS or family not in examples[0].families]
    for place, family in enumerate(families):
        limit = CONTRACTION_CARDS if family in CONTRACTIONS else 1 if examples else OTHER_CARDS
        matches = [card for card in cards if family in (card.family, *card.families) and not is_worked_example(card)]
        matches.sort(
            key=lambda card: (
                not explains_examples(card, examples),
                prefers_large and not card.min_flops,
                PRODUCT_CAUSE not in card.causes and family in CONTRACTIONS,
                card.family != family,
            )
        )
        turns += [(number, place, card) for number, card in enumerate(matches[:limit])]
    picks: dict[str, MemoryItem] = {}
    for _, _, card in sorted(turns, key=lambda turn: turn[:2]):
        if len(picks) < count and sum(len(pick.text) for pick in picks.values()) + len(card.text) <= max_chars:
            picks.setdefault(card.id, card)
    return list(picks.values())


def has_plain_types(task: Task) -> bool:
    """Return whether all tensors have the types of the worked examples, which multiply floats."""
    tensors = (*task.signature.inputs, *task.signature.params)
    return not any(tensor.dtype in NARROW_TYPES for tensor in tensors)


def is_on_contraction(card: MemoryItem) -> bool:
    """Return whether a card is about contractions."""
    return not CONTRACTIONS.isdisjoint((card.family, *card.families))


def find_worked_example(families: Sequence[str], cards: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return the worked example on the part of an operator that comes first, and on most parts among equals, with the examples it cites.

    An example of a contraction is for operators with that contraction only.
    """

    def match(card: MemoryItem) -> tuple[int, int]:
        place = families.index(card.family) if card.family in families else len(families)
        return place, -sum(family in (card.family, *card.families) for family in families)

    examples = [card for card in cards if is_worked_example(card) and match(card)[1] and card.family not in CONTRACTIONS - set(families)]
    best = sorted(examples, key=match)[:1]
    return [*best, *find_cited_cards(best, cards)]


def is_worked_example(card: MemoryItem) -> bool:
    """Return whether a card is long, because it shows a complete hard construct."""
    return len(card.text) > WORKED_EXAMPLE_CHARS


def find_cited_cards(shown: Sequence[MemoryItem], cards: Iterable[MemoryItem]) -> list[MemoryItem]:
    """Return the cards whose titles the shown cards quote: an example that uses a type of another one is of no use without it."""
    text, shown_ids = " ".join(word for item in shown for word in item.text.split()), {item.id for item in shown}
    return [card for card in cards if f'"{card.title}"' in text and card.id not in shown_ids]


def explains_examples(card: MemoryItem, examples: Sequence[MemoryItem]) -> bool:
    """Return whether all APIs of a card occur in the shown worked examples."""
    text = "\n".join(item.text for item in examples if is_worked_example(item))
    return bool(card.apis and text) and all(contains_identifier(name, text) for name in card.apis)


def select_draft_cards(
    state: State,
    memory: MemoryStore,
    retrieved: Collection[MemoryItem],
    count: int,
    part_count: int = 0,
    max_chars: int = CARD_CHARS,
) -> list[ContextItem]:
    """Select reference cards, which have no value: the backend's static cards, `part_count` on the operator's parts, `count` others.

    The others are API cards whose APIs occur in the retrieved code or in the last attempt, then API cards by family and similarity.
    API cards on the parts count as others, except that one is always left; a worked example needs no others. Cards on what static cards use
    are left out. Cards have at most `max_chars` characters, besides the static ones, the worked example and what it cites.
    """
    cards = search_cards(state, memory, "api", "practice")
    static = [card for card in cards if card.always_include and card.kind == "api"]
    optional = [card for card in cards if not card.always_include and card.task is None]
    families = needed_families(state.task)
    examples = find_worked_example(families, optional) if part_count else []
    on_parts = select_part_cards(families, optional, part_count, max_chars, examples, len(examples) > 1 and has_plain_types(state.task))
    part_cards = [*on_parts, *examples]
    code = "\n".join([*(item.code for item in retrieved), state.last_attempt.candidate.code if state.last_attempt else ""])
    part_ids = {card.id for card in part_cards}
    static_text = "\n".join(card.text for card in static)
    others = [card for card in optional if card.kind == "api" and card.id not in part_ids and not is_known(card, static_text)]
    in_code = [card for card in others if any(contains_identifier(name, code) for name in card.apis)]
    count = 0 if examples else max(min(count, 1), count - sum(card.kind == "api" for card in part_cards))
    # One slot is reserved for the most similar card, so that an API that no kernel uses yet can still be shown.
    picks = in_code[: max(count - 1, min(count, 1))]
    picked_ids = {card.id for card in picks}
    picks += prioritize_family([card for card in others if card.id not in picked_ids], state.task.family, count - len(picks))
    room = max_chars - sum(len(card.text) for card in on_parts)
    return as_reference([*static, *part_cards, *take_fitting(picks, room)])


def take_fitting(cards: Iterable[MemoryItem], max_chars: int) -> list[MemoryItem]:
    """Return the cards that fit into this number of characters, in their order."""
    taken: list[MemoryItem] = []
    for card in cards:
        if sum(len(other.text) for other in taken) + len(card.text) <= max_chars:
            taken.append(card)
    return taken


def is_known(card: MemoryItem, code: str) -> bool:
    """Return whether code already uses every API that a card explains."""
    return bool(card.apis) and all(contains_identifier(name, code) for name in card.apis)


def as_reference(cards: Iterable[MemoryItem]) -> list[ContextItem]:
    """Wrap cards for a context as reference material, which has no value."""
    return [ContextItem(role="api", item=card) for card in cards]


def prioritize_family(cards: Sequence[MemoryItem], family: str, k: int) -> list[MemoryItem]:
    """Return k cards: cards on the task's family first, in at most half of the slots, then the others in their order."""
    first = [card for card in cards if family and card.family == family][: -(-k // 2)]
    first_ids = {card.id for card in first}
    return [*first, *(card for card in cards if card.id not in first_ids)][:k]
