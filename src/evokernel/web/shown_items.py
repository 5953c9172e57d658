"""The memory items that a prompt showed: title, kind, value before and after, and the lines of the kernel that resemble them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from string import ascii_uppercase
from typing import NamedTuple

from markupsafe import Markup

from evokernel.core.errors import InfraError, UserError
from evokernel.core.memory_ids import NO_CARD, is_note_id, is_nothing_id, split_trace_id
from evokernel.core.plugins import plugin_names
from evokernel.core.records import Attempt, ContextRef
from evokernel.memory.queries import BankBrowser, ItemValueChange, ShownItemFacts
from evokernel.memory.seed_cards import load_seed_cards
from evokernel.policies.item_features import explain_choice
from evokernel.reports import formatting
from evokernel.reports.item_uses import ItemUse, count_item_uses
from evokernel.reports.resemblance import MarkedLine, Source, count_lines, extract_code, mark_lines
from evokernel.web.render import Links, render_part
from evokernel.web.run_index import RunIndex
from evokernel.web.run_tail import RunTail

START_KEY, MAX_USES = "S", 10
KIND_LABELS = {"api": "API card", "practice": "practice card", "experience": "experience", "trace": "kernel"}


class ShownItem(NamedTuple):
    """A memory item in the prompt of an attempt."""

    key: str
    """Its letter in the listing of the kernel."""
    ref: ContextRef
    title: str
    kind: str
    url: str
    change: ItemValueChange | None
    """Its value before and after the attempt; None if the attempt did not update it."""
    visits: int | None
    """Updates of its value at this stage up to now; None if the bank cannot be read."""
    line_count: int
    """Lines of the kernel that resemble it."""

    @property
    def why(self) -> str:
        """Why the policy chose it, in plain words; empty if the policy does not say."""
        return explain_choice(self.ref.reasons)


class ItemUseRow(NamedTuple):
    """A memory item that a run used."""

    use: ItemUse
    title: str
    kind: str
    url: str


class ShownContext(NamedTuple):
    """What the prompt of an attempt showed, and what became of it in the kernel."""

    items: list[ShownItem]
    files: dict[str, list[MarkedLine]]
    start_lines: int
    """Lines of the kernel that its start point has."""
    note: str = ""
    """Why titles or values are missing; empty if nothing is."""


def describe_context(run_index: RunIndex, run_tail: RunTail, attempt: Attempt, start: Attempt | None, links: Links) -> ShownContext:
    """The memory items of an attempt's prompt with their values, and its kernel with the lines that resemble them."""
    facts, note = load_facts(run_index, run_tail, attempt)
    bank = run_index.bank_key(run_tail)
    keys = item_keys(attempt.shown_items)
    bank_titles = {id: fact.item.title for id, fact in facts.items() if fact.item}
    titles = {ref.id: title_of(ref, bank_titles, run_tail) for ref in attempt.shown_items}
    sources = [
        Source(keys[ref.id], titles[ref.id], extract_code(fact.item.code, fact.item.text))
        for ref in attempt.shown_items
        if (fact := facts.get(ref.id)) and fact.item and keys[ref.id] != START_KEY
    ]
    start_source = Source(START_KEY, "the start point", "\n".join(start.candidate.files.values())) if start else None
    files = {name: mark_lines(body, start_source, sources) for name, body in sorted(attempt.candidate.files.items())}
    counts = count_lines(files)
    items = []
    for ref in attempt.shown_items:
        fact = facts.get(ref.id, ShownItemFacts())
        kind = KIND_LABELS.get(fact.item.kind if fact.item else guess_kind(ref), "")
        url = links.url_for("item", bank=bank, id=ref.id) if bank and fact.item else ""
        key = keys[ref.id]
        items.append(ShownItem(key, ref, titles[ref.id], kind, url, fact.change, fact.visits, counts.get(key, 0)))
    return ShownContext(items, files, counts.get(START_KEY, 0), note)


def render_item_uses(run_index: RunIndex, run_tail: RunTail, links: Links) -> Markup:
    """The memory items behind the best kernels of a run."""
    uses = count_item_uses(run_tail.results)
    shown = uses[:MAX_USES]
    bank, facts = run_index.bank_key(run_tail), load_titles(run_index, run_tail, [use.ref.id for use in shown])
    rows = [
        ItemUseRow(
            use,
            title_of(use.ref, facts, run_tail),
            KIND_LABELS.get(guess_kind(use.ref), ""),
            links.url_for("item", bank=bank, id=use.ref.id) if use.ref.id in facts else "",
        )
        for use in shown
    ]
    return render_part("item_uses.html.j2", links, rows=rows, count=len(uses))


def load_titles(run_index: RunIndex, run_tail: RunTail, ids: Sequence[str]) -> dict[str, str]:
    """Titles of items in the bank of the run; empty if it cannot be read."""
    key = run_index.bank_key(run_tail)
    if key is None or not ids:
        return {}
    try:
        with BankBrowser(run_index.banks[key]) as bank:
            return bank.load_titles(ids)
    except (UserError, InfraError):
        return {}


def load_facts(run_index: RunIndex, run_tail: RunTail, attempt: Attempt) -> tuple[Mapping[str, ShownItemFacts], str]:
    """What the bank of the run stores about the items of an attempt, and a note if it cannot be read."""
    ids = [ref.id for ref in attempt.shown_items]
    if not ids:
        return {}, ""
    key = run_index.bank_key(run_tail)
    if key is None:
        return {}, "The dashboard does not serve the memory bank of this run: texts and later values are missing."
    try:
        with BankBrowser(run_index.banks[key]) as bank:
            return bank.describe_shown_items(ids, attempt.run, attempt.id, attempt.stage.value), ""
    except (UserError, InfraError) as error:
        return {}, f"The memory bank of this run cannot be read: {error}"


def title_of(ref: ContextRef, titles: Mapping[str, str], run_tail: RunTail) -> str:
    """The title of an item; without the bank, from the shipped cards or from its id."""
    if is_nothing_id(ref.id):
        return f"nothing: the choice to show no {'card' if ref.id.endswith(NO_CARD) else 'kernel'}"
    if title := titles.get(ref.id):
        return title
    run, attempt = split_trace_id(ref.id)
    if attempt:
        own = run_tail.run and run == run_tail.run.config.id
        return formatting.format_attempt(attempt) + ("" if own else f" of run {run}") + (", experience" if is_note_id(ref.id) else "")
    return seed_titles(ref.id.partition("/")[0]).get(ref.id) or ref.id


@cache
def seed_titles(backend: str) -> dict[str, str]:
    """Titles of the cards that a backend ships; empty for a name that is no backend."""
    return {card.id: card.title for card in load_seed_cards(backend)} if backend in plugin_names("backend") else {}


def guess_kind(ref: ContextRef) -> str:
    """The kind of an item from its role and its id."""
    if ref.role in KIND_LABELS:
        return ref.role
    return ("experience" if is_note_id(ref.id) else "trace") if split_trace_id(ref.id)[1] else ""


def item_keys(refs: Sequence[ContextRef]) -> dict[str, str]:
    """A letter for each item; numbers after the alphabet. The trace of the start point has its letter."""
    letters = [letter for letter in ascii_uppercase if letter != START_KEY]
    ids = list(dict.fromkeys(ref.id for ref in refs if ref.role != "start"))
    keys = {id: letters[place] if place < len(letters) else str(place) for place, id in enumerate(ids)}
    return {**keys, **{ref.id: START_KEY for ref in refs if ref.role == "start"}}
