"""Keeps a bank from growing without bound: near copies of a kernel are merged, what turned out to be worth little is put aside.

Nothing is lost: what is put aside stays in the bank, can be listed and restored, and every row of the ledger is as it was. A merged item's
rows count for the one that stands for it, so that values still are what replaying the ledger gives. Runs under way see none of it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from evokernel.core.bank_uri import BankLocation, parse_location
from evokernel.core.errors import UserError
from evokernel.memory import ledger
from evokernel.memory.distill import note_id
from evokernel.memory.schema import connect_to_change, elsewhere, trouble
from evokernel.memory.tables import Connection, places, reading, transaction

RUN, BATCH = 5, 500
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|(?m:^\s*#(?!\s*(?:include|define|pragma|if|el|end|undef))[^\n]*)", re.DOTALL)
TOKEN = re.compile(r"\w+|[^\w\s]")
Runs = frozenset[tuple[str, ...]]


class Limits(NamedTuple):
    """What is merged and what is put aside."""

    alike: float = 0.9
    """The share of two kernels' runs of tokens that both have, from which on they are one."""
    below: float = -0.5
    """Items worth less than this at every stage go…"""
    visits: int = 5
    """…once they were tried so often."""
    most: int = 100
    """Attempts kept of a task, kernels with their notes and notes without a kernel: beyond, those of least value go."""


AS_USUAL = Limits()


class Trace(NamedTuple):
    """A kernel that is looked at, or a note, of which nobody looks at the words."""

    seq: int
    id: str
    task: str
    feasible: int | None
    latency_us: float | None
    reason: str
    code: str

    @property
    def rank(self) -> tuple[float, int]:
        """The fastest first, then the oldest."""
        return (float("inf") if self.latency_us is None else self.latency_us, self.seq)


class Merge(NamedTuple):
    """A kernel that is nearly another one."""

    item: str
    survivor: str
    likeness: float


class Aside(NamedTuple):
    """An item that was put aside, and why."""

    item: str
    why: str


class Consolidation(NamedTuple):
    """What was done, or would be."""

    number: int
    merged: tuple[Merge, ...]
    archived: tuple[Aside, ...]
    items_before: int
    items_after: int
    recomputed: int
    """Items whose values changed, as rows of merged ones now count for them."""


class Undo(Exception):
    """Leaves a transaction without a trace of it."""


def consolidate(path: BankLocation, limits: Limits = AS_USUAL, backend: str = "", dry_run: bool = False) -> Consolidation:
    """Tidies a bank: looks at it while others write, then does all of it in one transaction. A task's best kernel always stays."""
    path = parse_location(path)
    connection = connect_to_change(path)
    done = Consolidation(0, (), (), 0, 0, 0)
    try:
        with trouble(path), suppress(Undo):
            with reading(connection):
                merges, asides = looked_at(connection, path, limits, backend)
            with transaction(connection):
                number = 1 + latest(connection)
                before = count(connection)
                merges, asides = still_there(connection, merges, asides)
                recomputed = apply(connection, number, merges, asides)
                done = Consolidation(number, tuple(merges), tuple(asides), before, count(connection), recomputed)
                if dry_run or not (merges or asides):
                    raise Undo
                note(connection, number, {"limits": limits._asdict(), "merged": merges, "archived": asides})
    finally:
        connection.close()
    return done


def looked_at(connection: Connection, path: BankLocation, limits: Limits, backend: str) -> tuple[list[Merge], list[Aside]]:
    """What there is to do."""
    merges: list[Merge] = []
    asides: list[Aside] = []
    values = best_values(connection)
    for traces, notes in by_task(connection, path, backend):
        found = list(near_copies(traces, limits.alike))
        merges += found
        asides += worthless(*staying(traces, notes, found), values, limits)
    return merges, asides


def still_there(connection: Connection, merges: list[Merge], asides: list[Aside]) -> tuple[list[Merge], list[Aside]]:
    """Less what somebody revoked, or put aside, while we looked."""
    there = shown(connection, [name for merge in merges for name in merge[:2]] + [one.item for one in asides])
    return [one for one in merges if {one.item, one.survivor} <= there], [one for one in asides if one.item in there]


def shown(connection: Connection, ids: Iterable[str]) -> set[str]:
    """Those of some items that new runs are shown."""
    names = list(dict.fromkeys(ids))
    found: set[str] = set()
    for first in range(0, len(names), BATCH):
        part = names[first : first + BATCH]
        asked = f"SELECT id FROM items WHERE id IN ({places(len(part))}) AND revoked = 0 AND archived = 0"
        found.update(row[0] for row in connection.execute(asked, part))
    return found


def latest(connection: Connection) -> int:
    """Number of the newest consolidation."""
    return int(connection.execute("SELECT coalesce(max(number), 0) FROM consolidations").fetchone()[0])


def note(connection: Connection, number: int, report: dict[str, object]) -> None:
    """What was done, for whoever asks later."""
    connection.execute("INSERT INTO consolidations VALUES (?, ?)", (number, json.dumps(report)))


def count(connection: Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM items WHERE revoked = 0 AND archived = 0").fetchone()[0])


def by_task(connection: Connection, path: BankLocation, backend: str) -> Iterator[tuple[list[Trace], list[Trace]]]:
    """Kernels and notes that are shown, those of one task together; only one task's code is held at a time."""
    live = "kind IN ('trace', 'experience') AND revoked = 0 AND archived = 0 AND task IS NOT NULL AND ? IN ('', backend)"
    tasks = connection.execute(f"SELECT DISTINCT backend, task FROM items WHERE {live} ORDER BY 1, 2", (backend,)).fetchall()
    for name, task in tasks:
        rows = connection.execute(
            f"""SELECT seq, id, task, feasible, latency_us, CASE kind WHEN 'trace' THEN record END FROM items
            WHERE {live} AND backend = ? AND task = ? ORDER BY seq""",
            (backend, name, task),
        ).fetchall()
        try:
            held = [(row, json.loads(row[5])) for row in rows if row[5] is not None]
        except ValueError as error:
            raise UserError(f"memory bank {path} holds a record that cannot be read: {elsewhere()}") from error
        traces = [Trace._make((*row[:5], record.get("reason", ""), record.get("code", ""))) for row, record in held]
        yield traces, [Trace._make((*row[:5], "", "")) for row in rows if row[5] is None]


def near_copies(traces: Sequence[Trace], alike: float) -> Iterator[Merge]:
    """Kernels that are nearly a better one which ended in the same way."""
    groups: dict[tuple[int | None, str], list[Trace]] = defaultdict(list)
    for trace in sorted(traces, key=lambda one: one.rank):
        groups[trace.feasible, trace.reason].append(trace)
    for group in groups.values():
        kept: list[tuple[Trace, Runs]] = []
        for trace in group:
            mine = runs(trace.code)
            near, best = max(((likeness(mine, theirs), -n) for n, (_, theirs) in enumerate(kept)), default=(0.0, 0))
            if kept and near >= alike:
                yield Merge(trace.id, kept[-best][0].id, round(near, 3))
            else:
                kept.append((trace, mine))


def runs(code: str) -> Runs:
    """All runs of tokens, comments left out: a moved line is not a new one."""
    tokens = TOKEN.findall(COMMENT.sub(" ", code))
    return frozenset(tuple(tokens[i : i + RUN]) for i in range(max(1, len(tokens) - RUN + 1)))


def likeness(mine: Runs, theirs: Runs) -> float:
    """The share of both that is in both."""
    small, large = sorted((len(mine), len(theirs)))
    both = len(mine & theirs) if small else 0
    return both / (small + large - both) if large else 1.0


def best_values(connection: Connection) -> dict[str, tuple[float, int]]:
    """Of each item: its highest value at any stage, and how often it was tried in all."""
    found: dict[str, tuple[float, int]] = {}
    for item, q, visits in connection.execute("SELECT item, q, visits FROM q WHERE scope = ''"):
        high, often = found.get(item, (float("-inf"), 0))
        found[item] = (max(high, q), often + visits)
    return found


class Made(NamedTuple):
    """What is left of an attempt: a kernel, mostly with a note, or a note alone."""

    of: Trace
    names: tuple[str, ...]
    """Items that go together."""
    has_kernel: bool


def staying(traces: Sequence[Trace], notes: Sequence[Trace], merges: Sequence[Merge]) -> tuple[list[Made], Made | None]:
    """What merging leaves of a task, and the best of it."""
    shown = {note.id for note in notes}
    merged = {merge.item for merge in merges}
    gone = {note_id(merge.item) for merge in merges if note_id(merge.survivor) in shown}
    kernels = [trace for trace in traces if trace.id not in merged]
    made = [Made(one, tuple(name for name in (one.id, note_id(one.id)) if name == one.id or name in shown), True) for one in kernels]
    gone |= {name for one in made for name in one.names}
    best = min((one for one in made if one.of.feasible), key=lambda one: one.of.rank, default=None)
    return [*made, *(Made(note, (note.id,), False) for note in notes if note.id not in gone)], best


def worthless(left: Sequence[Made], best: Made | None, values: dict[str, tuple[float, int]], limits: Limits) -> Iterator[Aside]:
    """Kernels and notes that were tried often and helped seldom; and of too many attempts those of least value."""
    low = set()
    for name in (name for one in left if one != best for name in one.names):
        q, visits = values.get(name, (0.0, 0))
        if visits >= limits.visits and q < limits.below:
            low.add(name)
            yield Aside(name, f"worth {q:+.2f} at most after {visits} visits")

    def worth(one: Made) -> tuple[float, bool, bool, tuple[float, int]]:
        value = max((values[name][0] for name in one.names if name in values), default=0.0)
        return (-value, not one.has_kernel, not one.of.feasible, one.of.rank)

    rest = [Made(one.of, tuple(name for name in one.names if name not in low), one.has_kernel and one.of.id not in low) for one in left]
    rest = sorted((one for one in rest if one != best and one.names), key=worth)
    for one in rest[max(0, limits.most - (best is not None)) :]:
        yield from (Aside(name, f"beyond the {limits.most} attempts kept of {one.of.task}") for name in one.names)


def apply(connection: Connection, number: int, merges: Iterable[Merge], asides: Iterable[Aside]) -> int:
    """Puts items aside and merges values, with the notes of merged kernels; gives how many values were computed again."""
    pairs = [(one.item, one.survivor) for one in merges]
    notes = [(note_id(item), note_id(survivor)) for item, survivor in pairs]
    there = shown(connection, [name for pair in notes for name in pair])
    pairs += [pair for pair in notes if set(pair) <= there]
    live = {name for pair in pairs for name in pair}
    bring_back(connection, sorted(live & ledger.survivors(connection).keys()))  # of a run that had forgotten that it was merged
    connection.executemany("INSERT INTO merged VALUES (?, ?, ?)", [(*pair, number) for pair in pairs])
    aside = [*(one.item for one in asides), *(item for item, _ in pairs)]
    connection.executemany("UPDATE items SET archived = ? WHERE id = ? AND archived = 0", [(number, item) for item in aside])
    changed = {name for pair in pairs for name in pair}
    roots = ledger.survivors(connection)
    ledger.recompute(connection, sorted(changed | {roots.get(item, item) for item in changed}))
    return len({roots.get(item, item) for item in changed})


def restore(path: BankLocation, *ids: str) -> tuple[str, ...]:
    """Brings back items that were put aside, with the values that are theirs; gives their ids."""
    path = parse_location(path)
    connection = connect_to_change(path)
    try:
        with trouble(path), transaction(connection):
            for id in ids:
                if not connection.execute("SELECT 1 FROM items WHERE id = ? AND archived > 0", (id,)).fetchone():
                    raise UserError(f"nothing called '{id}' was put aside in {path}: evokernel memory list --archived shows what was")
            bring_back(connection, ids)
            note(connection, 1 + latest(connection), {"restored": ids})
    finally:
        connection.close()
    return ids


def bring_back(connection: Connection, ids: Iterable[str]) -> None:
    """Inside the caller's transaction."""
    listed = list(ids)
    roots = ledger.survivors(connection)
    changed = {name for id in listed for name in (id, roots.get(id, id))}
    connection.executemany("DELETE FROM merged WHERE item = ?", [(id,) for id in listed])
    connection.executemany("UPDATE items SET archived = 0 WHERE id = ?", [(id,) for id in listed])
    ledger.recompute(connection, sorted(changed))
