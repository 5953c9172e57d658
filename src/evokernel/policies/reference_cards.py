"""Knowledge cards for contexts: worked examples of hard constructs, cards on the parts of an operator, and static cards."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from evokernel.core.op_taxonomy import CONTRACTIONS, list_needed_kinds
from evokernel.core.protocols import MemoryStore
from evokernel.core.records import ContextItem, MemoryItem, MemoryKind, Task
from evokernel.core.state import State
from evokernel.policies.excerpts import contains_identifier

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
OMISSION = re.compile(r"^\s*(?://|#) …", re.MULTILINE)
"""A comment that stands for lines which an example leaves out; an example without one is complete."""


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
    has_complete_example: bool = False,
) -> list[MemoryItem]:
    """Select cards for every part of an operator, which take turns.

    Cards that explain what the shown examples use come first, then those for large work only if such an example is shown, then those that
    bring products to the matrix unit, then those on the part itself, then those that name it as a further family. With a worked example,
    which is left to `find_worked_example`, no card is on another way to multiply, and each other part has one card at most. A complete
    example needs no card on its APIs.
    """
    turns: list[tuple[int, int, MemoryItem]] = []
    prefers_large = any(card.min_flops for card in examples)
    if any(card.family in CONTRACTIONS for card in examples):
        cards = [card for card in cards if not is_on_contraction(card) or adds_to_examples(card, examples, has_complete_example)]
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


def is_complete(examples: Sequence[MemoryItem], task: Task) -> bool:
    """Return whether examples need no explanation: they leave no part out, and all tensors have their types; examples multiply floats."""
    tensors = (*task.signature.inputs, *task.signature.params)
    has_parts_only = len(examples) == 1 and OMISSION.search(examples[0].text)
    return bool(examples) and not has_parts_only and not any(tensor.dtype in NARROW_TYPES for tensor in tensors)


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


def adds_to_examples(card: MemoryItem, examples: Sequence[MemoryItem], has_complete_example: bool) -> bool:
    """Return whether a card on a contraction is worth showing beside worked examples: advice for it, or what their APIs mean."""
    is_advice = card.kind == "practice" and (card.family == examples[0].family or card.min_flops > 0)
    return is_advice or (not has_complete_example and explains_examples(card, examples))


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
    on_parts = select_part_cards(families, optional, part_count, max_chars, examples, is_complete(examples, state.task))
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
