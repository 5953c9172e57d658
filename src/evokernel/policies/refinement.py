"""Refinement contexts: the start point, its earlier refinements, and help with the largest causes of its latency, or nothing.

A kernel is shown for a technique that the start point lacks, never for its speed: strong models copy what they see, and a fast kernel of
an unrelated operator leads them astray (docs/adr/0037-nothing-is-a-choice.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from evokernel.core.memory_ids import NO_CARD, NO_KERNEL, make_note_id, make_nothing_id
from evokernel.core.op_taxonomy import CONTRACTIONS
from evokernel.core.opportunities import top_opportunities
from evokernel.core.protocols import MemoryStore
from evokernel.core.records import Attempt, Context, ContextItem, ItemRole, MemoryItem, Stage
from evokernel.core.state import State
from evokernel.policies.excerpts import contains_identifier, list_new_names, make_diff, make_excerpt
from evokernel.policies.reference_cards import (
    CARD_CHARS,
    as_reference,
    explains_examples,
    find_cited_cards,
    is_complete,
    is_known,
    is_on_contraction,
    is_relevant,
    is_worked_example,
    needed_families,
    search_cards,
    select_part_cards,
    take_fitting,
)
from evokernel.policies.retrieval import Selector, retrieve_nearest

MAX_CHILDREN = 3
MIN_EXAMPLE_SPEEDUP = 0.5
"""A kernel below this speedup over its own baseline is slow, and no example for another."""
KERNEL_POOL = 32
"""Nearest correct kernels among which a technique is looked for."""
MAX_PART_CARDS = 8
"""Reference cards in a refinement: on what the shown cards need and on contractions, other parts are in the start point."""
MIN_PLACE_SHARE = 0.1
"""An opportunity below this share of the largest gain has no place: a prompt names it in its table, but needs no help for it yet."""
NOTHING_TITLES = {NO_CARD: "no card in this place", NO_KERNEL: "no kernel in this place"}


class Place(NamedTuple):
    """A place in a refinement context: the cause that it is about, and the cards that may fill it, best match first."""

    cause: str
    cards: list[MemoryItem]


def refine_context(
    state: State,
    memory: MemoryStore,
    selector: Selector,
    start: Attempt,
    top_n: int,
    pool_size: int,
    part_cards: int = 0,
    card_chars: int = CARD_CHARS,
) -> Context:
    """Build a refinement context: the start point, earlier refinements of it, at most `top_n` items that help, and reference cards.

    For each of the start point's largest opportunities there is a place for a card, and for one of them an excerpt of a kernel; without
    opportunities, the bottleneck takes their place.
    """
    context_items = selector.to_context_items("start", memory.get([start.memory_id]))
    context_items += show_children(state, memory, selector, start)
    if top_n:
        cards = [card for card in search_cards(state, memory, "api", "practice") if not card.always_include]
        places = opportunity_places(state, start, cards, pool_size) or bottleneck_places(state, start, cards, pool_size)
        kernels = find_examples(state, memory, start)
        context_items += fill_places(context_items, places, kernels, selector, start, top_n, pool_size)
        count = min(part_cards, MAX_PART_CARDS)
        context_items += as_reference(select_reference_cards(state, start, context_items, cards, count, card_chars))
    return Context(stage=Stage.REFINE, start_point=start, items=tuple(context_items), propensity=selector.propensity)


def select_reference_cards(
    state: State, start: Attempt, shown: Sequence[ContextItem], cards: Sequence[MemoryItem], count: int, max_chars: int
) -> list[MemoryItem]:
    """Select what the shown cards need, then cards on contractions that the start point lacks; nothing that it already uses.

    A worked example needs the complete example that it cites, else the cards of its family that explain its APIs. A shown card on a
    contraction is not mixed with other ways.
    """
    shown_ids = {entry.item.id for entry in shown}
    unused = [card for card in cards if card.task is None and card.id not in shown_ids and not is_known(card, start.candidate.code)]
    examples = [entry.item for entry in shown if entry.item.task is None]
    cited = find_cited_cards(examples, unused)
    example_families = {family for card in [*examples, *cited] for family in (card.family, *card.families)} - {""}
    explaining = [card for card in unused if card.family in example_families and explains_examples(card, [*examples, *cited])]
    if is_complete([*filter(is_worked_example, examples), *cited], state.task):
        explaining = []
    families = [family for family in needed_families(state.task) if family in CONTRACTIONS and not uses_family(start, family, cards)]
    on_parts = [] if any(map(is_on_contraction, examples)) else select_part_cards(families, unused, count, max_chars)
    others = {card.id: card for card in [*explaining, *on_parts] if card not in cited}
    return [*cited, *take_fitting(others.values(), max_chars)][:count]


def opportunity_places(state: State, start: Attempt, cards: Sequence[MemoryItem], pool_size: int) -> list[Place]:
    """Return a place for each of the largest opportunities: its own card first, then relevant cards that declare its cause."""
    families = needed_families(state.task)
    places = []
    largest = max((opportunity.gain_us for opportunity in top_opportunities(start)), default=0.0)
    for opportunity in top_opportunities(start):
        if opportunity.gain_us < MIN_PLACE_SHARE * largest:
            continue
        named = [card for card in cards if opportunity.card and card.id == f"{card.backend}/{opportunity.card}"]
        others = [card for card in cards if opportunity.cause in card.causes and card not in named and is_relevant(card, families)]
        others.sort(key=lambda card: not card.family)  # about a part of this operator before about any operator
        places.append(Place(opportunity.cause, [*named, *others][:pool_size]))
    return places


def bottleneck_places(state: State, start: Attempt, cards: Sequence[MemoryItem], pool_size: int) -> list[Place]:
    """Return the places of a context without opportunities: practice cards for the bottleneck, then those for the operator."""
    profile, families = start.outcome.profile, needed_families(state.task)
    practices = [card for card in cards if card.kind == "practice" and is_relevant(card, families)]
    practices.sort(key=lambda card: not card.family)
    same_bottleneck = [card for card in practices if profile and card.bottleneck == profile.bottleneck]
    return [Place("", same_bottleneck[:pool_size]), Place("", practices[:pool_size])]


def find_examples(state: State, memory: MemoryStore, start: Attempt) -> list[MemoryItem]:
    """Return the nearest correct kernels that are not slow: those for the same task first, then those of its families."""
    families = needed_families(state.task)
    kernels = retrieve_nearest(state, memory, KERNEL_POOL, ("trace",), max_per_task=2, feasible=True)
    examples = [kernel for kernel in kernels if not is_slow(kernel, start)]
    return sorted(examples, key=lambda kernel: (kernel.task != state.task.id, kernel.family not in families))


def is_slow(kernel: MemoryItem, start: Attempt) -> bool:
    """Return whether a kernel is too slow to be an example: compared with the start point if it is for its task, else with its baseline."""
    if kernel.task == start.task and kernel.latency_us and start.outcome.latency_us:
        return kernel.latency_us >= start.outcome.latency_us
    return (kernel.speedup or 0.0) < MIN_EXAMPLE_SPEEDUP


def fill_places(
    shown: Sequence[ContextItem],
    places: Sequence[Place],
    kernels: Sequence[MemoryItem],
    selector: Selector,
    start: Attempt,
    top_n: int,
    pool_size: int,
) -> list[ContextItem]:
    """Fill the places by value: first one card each, then one kernel with the technique of its card. "Nothing" competes for each."""
    entries: dict[str, ContextItem] = {}
    used_ids = {entry.item.id for entry in shown}
    backend = start.candidate.backend

    def fill(role: ItemRole, cause: str, pool: Sequence[MemoryItem], nothing: str) -> MemoryItem | None:
        """Show the best candidate, unless showing nothing has the higher value. There is no choice without candidates."""
        candidates = [item for item in pool if item.id not in used_ids and item.id not in entries][:pool_size]
        if not candidates or sum(entry.role != "nothing" for entry in entries.values()) >= top_n:
            return None
        chooser = selector.for_cause(cause)
        pick = chooser.pick_items([*candidates, make_nothing(nothing, backend)], 1)[0]
        is_nothing = pick.id == make_nothing_id(backend, nothing)
        (entry,) = chooser.to_context_items("nothing" if is_nothing else role, [pick])
        entries.setdefault(pick.id, entry.model_copy(update={"cause": cause}))
        return None if is_nothing else pick

    cards = [fill("bottleneck" if index == 0 or place.cause else "practice", *place, NO_CARD) for index, place in enumerate(places)]
    for place, card in zip(places, cards, strict=True):
        missing_names = list_missing_names(card or next(iter(place.cards), None), start)
        candidates = [kernel for kernel in kernels if has_technique(kernel, place, missing_names)]
        if candidates:
            if kernel := fill("trace", place.cause, candidates, NO_KERNEL):
                names = missing_names if place.cause else list_new_names(kernel.code, start.candidate.code)
                entries[kernel.id] = entries[kernel.id].model_copy(update={"excerpt": make_excerpt(kernel.code, names)})
            break
    return list(entries.values())


def list_missing_names(card: MemoryItem | None, start: Attempt) -> list[str]:
    """Return the APIs that a card explains and the start point does not use; none for a worked example, which no kernel has to repeat."""
    names = card.apis if card and not is_worked_example(card) else ()
    return [name for name in names if not contains_identifier(name, start.candidate.code)]


def has_technique(kernel: MemoryItem, place: Place, names: Sequence[str]) -> bool:
    """Return whether a kernel shows any of these names and does not suffer from the cause of the place itself.

    Without opportunities, a place names no technique, and any example will do.
    """
    if not place.cause:
        return True
    return kernel.causes[:1] != (place.cause,) and any(contains_identifier(name, kernel.code) for name in names)


def uses_family(start: Attempt, family: str, cards: Sequence[MemoryItem]) -> bool:
    """Return whether a start point already uses an API that a card on this family explains, such as the matrix unit."""
    names = {name for card in cards if card.kind == "api" and card.family == family for name in card.apis}
    return any(contains_identifier(name, start.candidate.code) for name in names)


def make_nothing(name: str, backend: str) -> MemoryItem:
    """Return the item that stands for showing nothing in a place. It is not in memory, but it has values like any item."""
    return MemoryItem(id=make_nothing_id(backend, name), kind="practice", backend=backend, title=NOTHING_TITLES[name], text="")


def show_children(state: State, memory: MemoryStore, selector: Selector, start: Attempt) -> list[ContextItem]:
    """Return the latest refinements of a start point, newest last, as changes to it; an attempt without code is shown by its note."""
    refinements = [attempt for attempt in state.attempts if attempt.start_point == start.id][-MAX_CHILDREN:]
    items = [memory.get([attempt.memory_id, make_note_id(attempt.memory_id)])[:1] for attempt in refinements]
    entries = selector.to_context_items("child", [item for pair in items for item in pair])
    return [
        entry.model_copy(update={"excerpt": make_diff(start.candidate.code, entry.item.code)}) if entry.item.code else entry
        for entry in entries
    ]
