"""Does a bank or a pack tell about operators it is to be tried on? Item by item, with the reason, and what values were learned on them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from evokernel.core.bank_uri import BankLocation, ServerUrl
from evokernel.core.errors import UserError
from evokernel.core.records import MemoryItem
from evokernel.experiments.code_similarity import Kernels
from evokernel.experiments.pack_contamination import Described, HeldOut
from evokernel.memory.bank import Bank
from evokernel.memory.distill import note_id
from evokernel.memory.ledger import Update
from evokernel.memory.pack_file import read
from evokernel.memory.packs import Leaving
from evokernel.tasks import loader

IS_DATABASE = b"SQLite format 3\0"
WHY = {
    "task": "is of this task",
    "reference": "written for the same reference, at this or another size",
    "structure": "written for the same operator under other names",
    "quote": "quotes its reference",
    "kernel": "the same kernel as one written for it",
    "kin": "made with, or from, an item that tells about it",
    "name": "names it",
}
"""How it is known that an item tells about an operator, surest first."""
ALIASES = ("reference", "structure")


class Operator(NamedTuple):
    """One that is held out."""

    id: str
    source: str


class Memory(NamedTuple):
    """What a bank or a pack holds."""

    items: tuple[MemoryItem, ...]
    updates: tuple[Update, ...]


class Leak(NamedTuple):
    """An item that tells about a held-out operator."""

    item: str
    task: str | None
    operator: str
    why: str
    """A word of `WHY`."""
    by: str = ""
    """The other item it is known by."""
    likeness: float | None = None
    """Of a kernel: how much of it is in both."""


class Audit(NamedTuple):
    """What was found."""

    operators: tuple[str, ...]
    """That were looked for."""
    items: int
    """That were looked at."""
    leaks: tuple[Leak, ...]
    updates: dict[str, int]
    """Updates of values that were learned on an operator, under whatever name."""

    @property
    def is_clean(self) -> bool:
        return not self.leaks and not self.updates

    @property
    def told(self) -> list[str]:
        """The operators something is told about."""
        found = {leak.operator for leak in self.leaks} | self.updates.keys()
        return [id for id in self.operators if id in found]

    def leaving(self) -> Leaving:
        """What stays behind so that nothing is told."""
        ids = {name for leak in self.leaks for name in (leak.item, attempt_of(leak.item))}
        return Leaving(frozenset(aliases(self.leaks)) | frozenset(self.operators), frozenset(ids))


def operators(spec: str) -> list[Operator]:
    """Those that a specification names, as `--tasks` takes it; nothing is run."""
    return [Operator(file.id, loader.read(file.path)) for file in loader.files(spec)]


def remembered(path: BankLocation) -> Memory:
    """What a bank or a pack holds; a pack is looked at as it is, whatever its header says."""
    try:
        is_bank = isinstance(path, ServerUrl) or starts_like_one(path)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; name a memory bank or a pack") from error
    if isinstance(path, Path) and not is_bank:
        pack = read(path, unsigned=True)
        return Memory(tuple(held.item for held in pack.items), pack.updates)
    with Bank.read(path) as bank:
        return Memory(tuple(entry.item for entry in bank.entries()), tuple(bank.updates()))


def starts_like_one(path: Path) -> bool:
    """Whether a file is a bank."""
    with path.open("rb") as file:
        return file.read(len(IS_DATABASE)) == IS_DATABASE


def audit(memory: Memory, held_out: Sequence[Described], known: Iterable[Memory] = ()) -> Audit:
    """Looks at every item. `known` are other memories with kernels of the operators, by which copies are recognised."""
    looked_for = HeldOut(held_out)
    found = {leak.item: leak for item in memory.items if (leak := by_content(item, looked_for))}
    of_them = [(leak.operator, item) for item in memory.items if (leak := found.get(item.id))]
    of_them += [(told[0], item) for other in known for item in other.items if (told := looked_for.told_by(item))]
    kernels = Kernels((operator, item.id, item.code) for operator, item in of_them if item.code and item.feasible)
    for item in memory.items:
        if item.id not in found and (leak := by_kernel(item, kernels)):
            found[item.id] = leak
    add_kin(memory.items, found)
    for item in memory.items:
        if item.id not in found and (leak := by_name(item, looked_for.ids)):
            found[item.id] = leak
    leaks = tuple(found[item.id] for item in memory.items if item.id in found)
    return Audit(tuple(looked_for.ids), len(memory.items), leaks, learned_on(memory.updates, leaks, looked_for.ids))


def by_content(item: MemoryItem, held_out: HeldOut) -> Leak | None:
    """By where it comes from, and by the reference it was written for or quotes."""
    told = held_out.told_by(item)
    return Leak(item.id, item.task, *told) if told else None


def by_kernel(item: MemoryItem, kernels: Kernels) -> Leak | None:
    """By its code, or the code in its words."""
    alike = (item.code and kernels.written_as(item.code)) or kernels.quoted_in(item.text)
    return Leak(item.id, item.task, alike.operator, "kernel", alike.item, alike.likeness) if alike else None


def add_kin(items: Sequence[MemoryItem], found: dict[str, Leak]) -> None:
    """The note of a trace, the trace of a note, and what was refined from one of these, directly or not."""
    kin: dict[str, list[MemoryItem]] = {}
    for item in items:
        for attempt in {attempt_of(item.id), item.parent} - {""}:
            kin.setdefault(attempt, []).append(item)
    waiting = list(found)
    for id in waiting:
        for other in kin.get(attempt_of(id), ()):
            if other.id not in found:
                found[other.id] = Leak(other.id, other.task, found[id].operator, "kin", id)
                waiting.append(other.id)


def attempt_of(id: str) -> str:
    """The trace's id, of a trace or its note."""
    return id.removesuffix(note_id(""))


def by_name(item: MemoryItem, ids: Sequence[str]) -> Leak | None:
    """By its words: what names an operator may well be about it."""
    words = f"{item.id}\n{item.title}\n{item.text}\n{item.code}\n{item.source}\n{item.parent}"
    named = (id for id in ids if id in words and re.search(rf"(?<![\w-]){re.escape(id)}(?![\w-])", words))
    return next((Leak(item.id, item.task, id, "name") for id in named), None)


def aliases(leaks: Iterable[Leak]) -> dict[str, str]:
    """Other names under which operators were worked on."""
    return {leak.task: leak.operator for leak in leaks if leak.task and leak.why in ALIASES}


def learned_on(updates: Iterable[Update], leaks: Sequence[Leak], ids: Iterable[str]) -> dict[str, int]:
    """How many updates of values come from attempts at an operator."""
    tasks = {**aliases(leaks), **{id: id for id in ids}}
    attempts = {attempt_of(leak.item): leak.operator for leak in leaks}
    found = (tasks.get(update.task) or attempts.get(update.trace) for update in updates)
    return dict(sorted(Counter(filter(None, found)).items()))
