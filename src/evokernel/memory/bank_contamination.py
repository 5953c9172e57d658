"""Finds the items and value updates of a bank or a pack that reveal held-out operators, each with the reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from evokernel.core.bank_uri import BankLocation, ServerUrl
from evokernel.core.errors import UserError
from evokernel.core.memory_ids import to_trace_id
from evokernel.core.records import MemoryItem
from evokernel.memory.bank import Bank
from evokernel.memory.code_similarity import KernelIndex
from evokernel.memory.ledger import ValueUpdate
from evokernel.memory.pack_contamination import HeldOutOperators, OperatorSource
from evokernel.memory.pack_file import read_pack
from evokernel.memory.packs import ExportExclusions
from evokernel.suites import loader

SQLITE_HEADER = b"SQLite format 3\0"
MATCH_REASONS = {
    "task": "belongs to this task",
    "reference": "was written for the same reference, at this or another size",
    "structure": "was written for the same operator under other names",
    "quote": "quotes its reference",
    "kernel": "is a clone of a kernel written for it",
    "related": "was derived from an item that reveals it, or that item from it",
    "name": "names it",
}
"""How an item reveals an operator, most certain reason first."""
ALIAS_REASONS = ("reference", "structure")


class HeldOutOperator(NamedTuple):
    """A held-out operator."""

    id: str
    source: str


class MemoryContents(NamedTuple):
    """The content of a bank or a pack."""

    items: tuple[MemoryItem, ...]
    updates: tuple[ValueUpdate, ...]


class ContaminationMatch(NamedTuple):
    """An item that reveals a held-out operator."""

    item: str
    task: str | None
    operator: str
    reason: str
    """A key of `MATCH_REASONS`."""
    via_item: str = ""
    """The other item that connects it with the operator."""
    similarity: float | None = None
    """For a clone: the share of common n-grams."""


class ContaminationReport(NamedTuple):
    """The result of the search for held-out operators."""

    operators: tuple[str, ...]
    """The held-out operators."""
    item_count: int
    """The number of items searched."""
    matches: tuple[ContaminationMatch, ...]
    updates: dict[str, int]
    """Value updates from attempts on each operator, under any name."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing reveals an operator."""
        return not self.matches and not self.updates

    @property
    def revealed_operators(self) -> list[str]:
        """The operators that items or updates reveal."""
        revealed_ids = {match.operator for match in self.matches} | self.updates.keys()
        return [id for id in self.operators if id in revealed_ids]

    def export_filter(self) -> ExportExclusions:
        """Return a filter for exports that excludes everything that reveals an operator."""
        ids = {name for match in self.matches for name in (match.item, to_trace_id(match.item))}
        return ExportExclusions(frozenset(operator_aliases(self.matches)) | frozenset(self.operators), frozenset(ids))


def load_operators(pattern: str) -> list[HeldOutOperator]:
    """Load the operators that match a pattern as in `--tasks`; their code is not run."""
    return [HeldOutOperator(file.id, loader.read_source(file.path)) for file in loader.find_task_files(pattern)]


def load_memory(path: BankLocation) -> MemoryContents:
    """Load the content of a bank or a pack; the pack's header is ignored."""
    try:
        is_bank = isinstance(path, ServerUrl) or is_sqlite_file(path)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}. Name a memory bank or a pack.") from error
    if isinstance(path, Path) and not is_bank:
        pack = read_pack(path, allow_modified=True)
        return MemoryContents(tuple(packed.item for packed in pack.items), pack.updates)
    with Bank.open_reader(path) as bank:
        return MemoryContents(tuple(entry.item for entry in bank.find_items()), tuple(bank.list_updates()))


def is_sqlite_file(path: Path) -> bool:
    """Whether a file is an SQLite database."""
    with path.open("rb") as file:
        return file.read(len(SQLITE_HEADER)) == SQLITE_HEADER


def find_contamination(target: BankLocation, spec: str, kernels: Sequence[BankLocation] = ()) -> ContaminationReport:
    """Return what a bank or pack reveals about the operators of a task specification."""
    return check_contamination(load_memory(target), load_operators(spec), [load_memory(path) for path in kernels])


def check_contamination(
    memory: MemoryContents, held_out: Sequence[OperatorSource], kernel_sources: Iterable[MemoryContents] = ()
) -> ContaminationReport:
    """Search every item. `kernel_sources` are other memories with kernels for the operators, to recognise copies."""
    operators = HeldOutOperators(held_out)
    matches = {match.item: match for item in memory.items if (match := match_by_content(item, operators))}
    revealing_items = [(match.operator, item) for item in memory.items if (match := matches.get(item.id))]
    for source in kernel_sources:
        revealing_items += [(content[0], item) for item in source.items if (content := operators.match_item(item))]
    kernels = KernelIndex((operator, item.id, item.code) for operator, item in revealing_items if item.code and item.feasible)
    for item in memory.items:
        if item.id not in matches and (match := match_by_kernel(item, kernels)):
            matches[item.id] = match
    add_related_items(memory.items, matches)
    for item in memory.items:
        if item.id not in matches and (match := match_by_name(item, operators.ids)):
            matches[item.id] = match
    in_order = tuple(matches[item.id] for item in memory.items if item.id in matches)
    updates = count_value_updates(memory.updates, in_order, operators.ids)
    return ContaminationReport(tuple(operators.ids), len(memory.items), in_order, updates)


def match_by_content(item: MemoryItem, held_out: HeldOutOperators) -> ContaminationMatch | None:
    """Match an item by its task, or by the reference it was written for or quotes."""
    match = held_out.match_item(item)
    return ContaminationMatch(item.id, item.task, *match) if match else None


def match_by_kernel(item: MemoryItem, kernels: KernelIndex) -> ContaminationMatch | None:
    """Match an item by its code, or by code in its text."""
    clone = (item.code and kernels.find_clone(item.code)) or kernels.find_quote(item.text)
    return ContaminationMatch(item.id, item.task, clone.operator, "kernel", clone.item, clone.similarity) if clone else None


def add_related_items(items: Sequence[MemoryItem], matches: dict[str, ContaminationMatch]) -> None:
    """Add the note of a matched trace, the trace of a matched note, and all items refined from them, directly or not."""
    by_trace: dict[str, list[MemoryItem]] = {}
    for item in items:
        for attempt in {to_trace_id(item.id), item.parent} - {""}:
            by_trace.setdefault(attempt, []).append(item)
    queue = list(matches)
    for id in queue:
        for other in by_trace.get(to_trace_id(id), ()):
            if other.id not in matches:
                matches[other.id] = ContaminationMatch(other.id, other.task, matches[id].operator, "related", id)
                queue.append(other.id)


def match_by_name(item: MemoryItem, ids: Sequence[str]) -> ContaminationMatch | None:
    """Match an item whose text contains the operator's id."""
    text = f"{item.id}\n{item.title}\n{item.text}\n{item.code}\n{item.source}\n{item.parent}"
    ids_in_text = (id for id in ids if id in text and re.search(rf"(?<![\w-]){re.escape(id)}(?![\w-])", text))
    return next((ContaminationMatch(item.id, item.task, id, "name") for id in ids_in_text), None)


def operator_aliases(matches: Iterable[ContaminationMatch]) -> dict[str, str]:
    """Return the operators by the other task names that items have for them."""
    return {match.task: match.operator for match in matches if match.task and match.reason in ALIAS_REASONS}


def count_value_updates(updates: Iterable[ValueUpdate], matches: Sequence[ContaminationMatch], ids: Iterable[str]) -> dict[str, int]:
    """Count the value updates from attempts on each operator."""
    tasks = {**operator_aliases(matches), **{id: id for id in ids}}
    attempts = {to_trace_id(match.item): match.operator for match in matches}
    operators = (tasks.get(update.task) or attempts.get(update.memory_id) for update in updates)
    return dict(sorted(Counter(filter(None, operators)).items()))
