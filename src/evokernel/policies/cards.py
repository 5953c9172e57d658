"""Choice of knowledge cards: by the parts of the operator, by the APIs in code, by the causes of latency, and by similarity."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from evokernel.core.op_taxonomy import CONTRACTIONS, list_needed_kinds
from evokernel.core.protocols import MemoryStore
from evokernel.core.records import ContextItem, MemoryItem, MemoryKind, Task
from evokernel.core.state import State
from evokernel.policies.excerpts import contains_identifier

MAX_CARDS = 1024
CARDS_PER_TURN = 4
"""Cards that a contraction takes before the next part of the operator takes one: using the matrix unit needs several cards at once."""
CONTRACTION_CARDS, OTHER_CARDS = 10, 3
"""Most cards on one contraction, and on any other part."""
DRAFT_CARD_CHARS = 10_000
"""Characters of the cards on the parts of an operator in a draft, without the worked example."""
WORKED_EXAMPLE_CHARS = 2_400
"""A longer card is a worked example of a hard construct; a draft shows one at most."""


def search_cards(state: State, memory: MemoryStore, *kinds: MemoryKind) -> list[MemoryItem]:
    """Return the backend's cards of these kinds, most similar to the task first."""
    return [hit.item for hit in memory.search(state.task.source, MAX_CARDS, kinds)]


def needed_families(task: Task) -> list[str]:
    """Return the families of all parts of a task, contractions first: attention needs products and softmax."""
    return list_needed_kinds(task.family, task.families)


def is_relevant(card: MemoryItem, families: Collection[str]) -> bool:
    """Return whether a card is about any of these families, or about all operators."""
    own_families = {card.family, *card.families} - {""}
    return not own_families or bool(own_families & set(families))


def select_part_cards(families: Sequence[str], cards: Sequence[MemoryItem], count: int, max_chars: int) -> list[MemoryItem]:
    """Select cards for every part of an operator; the parts take turns, and a contraction takes several cards at a time.

    Cards on the part itself come before those that name it as a further family. Worked examples are left to `find_worked_example`.
    """
    turns: list[tuple[int, int, MemoryItem]] = []
    for place, family in enumerate(families):
        per_turn, limit = (CARDS_PER_TURN, CONTRACTION_CARDS) if family in CONTRACTIONS else (1, OTHER_CARDS)
        matches = [card for card in cards if family in (card.family, *card.families) and len(card.text) <= WORKED_EXAMPLE_CHARS]
        ranking = sorted(matches, key=lambda card: card.family != family)[:limit]
        turns += [(number // per_turn, place, card) for number, card in enumerate(ranking)]
    picks: dict[str, MemoryItem] = {}
    for _, _, card in sorted(turns, key=lambda turn: turn[:2]):
        if len(picks) < count and sum(len(pick.text) for pick in picks.values()) + len(card.text) <= max_chars:
            picks.setdefault(card.id, card)
    return list(picks.values())


def find_worked_example(families: Sequence[str], cards: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return the worked example that concerns most parts of an operator, the part that comes first among equals; empty if there is none."""

    def match(card: MemoryItem) -> tuple[int, int]:
        places = [place for place, family in enumerate(families) if family in (card.family, *card.families)]
        return -len(places), min(places, default=len(families))

    examples = [card for card in cards if len(card.text) > WORKED_EXAMPLE_CHARS and match(card)[0]]
    return sorted(examples, key=match)[:1]


def select_draft_cards(
    state: State, memory: MemoryStore, retrieved: Collection[MemoryItem], count: int, part_count: int = 0
) -> list[ContextItem]:
    """Select reference cards, which have no value: the backend's static cards, `part_count` on the operator's parts, `count` others.

    The others are API cards whose APIs occur in the retrieved code or in the last attempt, then API cards by family and similarity.
    API cards on the parts count as others, except that one is always left.
    """
    cards = search_cards(state, memory, "api", "practice")
    static = [card for card in cards if card.always_include and card.kind == "api"]
    optional = [card for card in cards if not card.always_include and card.task is None]
    families = needed_families(state.task)
    part_cards = select_part_cards(families, optional, part_count, DRAFT_CARD_CHARS)
    part_cards += find_worked_example(families, optional) if part_count else []
    code = "\n".join([*(item.code for item in retrieved), state.last_attempt.candidate.code if state.last_attempt else ""])
    part_ids = {card.id for card in part_cards}
    others = [card for card in optional if card.kind == "api" and card.id not in part_ids]
    in_code = [card for card in others if any(contains_identifier(name, code) for name in card.apis)]
    count = max(min(count, 1), count - sum(card.kind == "api" for card in part_cards))
    # One slot is reserved for the most similar card, so that an API that no kernel uses yet can still be shown.
    picks = in_code[: max(count - 1, min(count, 1))]
    picked_ids = {card.id for card in picks}
    picks += prioritize_family([card for card in others if card.id not in picked_ids], state.task.family, count - len(picks))
    return as_reference([*static, *part_cards, *picks])


def as_reference(cards: Iterable[MemoryItem]) -> list[ContextItem]:
    """Wrap cards for a context as reference material, which has no value."""
    return [ContextItem(role="api", item=card) for card in cards]


def prioritize_family(cards: Sequence[MemoryItem], family: str, k: int) -> list[MemoryItem]:
    """Return k cards: cards on the task's family first, in at most half of the slots, then the others in their order."""
    first = [card for card in cards if family and card.family == family][: -(-k // 2)]
    first_ids = {card.id for card in first}
    return [*first, *(card for card in cards if card.id not in first_ids)][:k]
