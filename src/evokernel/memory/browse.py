"""A bank page by page: filters, words and meaning over many items, without parsing more of them than are shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evokernel.core.protocols import Embedder
from evokernel.core.records import MemoryItem
from evokernel.memory.archive import Archive, Entry
from evokernel.memory.index import KINDS, Index, grid
from evokernel.memory.schema import trouble

SAID = "id || char(10) || json_extract(record, '$.title', '$.text', '$.code')"
WORTH = "max(coalesce(one.q, -9), coalesce(two.q, -9))"
JOINED = (
    "items LEFT JOIN q AS one ON one.item = items.id AND one.stage = 'draft' AND one.scope = ''"
    " LEFT JOIN q AS two ON two.item = items.id AND two.stage = 'refine' AND two.scope = ''"
)


class Wanted(NamedTuple):
    """What to show of a bank; what is empty does not matter."""

    text: str = ""
    """Words that must all occur, whatever their case."""
    kind: str = ""
    backend: str = ""
    task: str = ""
    """The beginning of a task's name."""
    least: float | None = None
    """The better of both values, at least."""


class Valued(NamedTuple):
    """An item with its values; `q` is None where nothing was learned."""

    entry: Entry
    q1: float | None
    visits1: int
    q2: float | None
    visits2: int
    similarity: float | None = None


class Listing(NamedTuple):
    """A page of items, and how many there are in all."""

    items: list[Valued]
    total: int


class Figures(NamedTuple):
    """A bank in a few figures, quickly."""

    kinds: dict[str, int]
    runs: int
    updates: int
    valued: int
    """Items that something was learned about."""


class Came(NamedTuple):
    """What came of an attempt, as its trace tells."""

    feasible: bool | None
    reason: str
    latency_us: float | None


class Browser(Archive):
    """An archive that is asked again and again while runs write to it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._index: Index | None = None
        self._seqs: list[int] = []
        self._last = 0

    def page(self, wanted: Wanted, limit: int, offset: int = 0) -> Listing:
        """Items that are like that, the most valuable first, newer first among equals."""
        where, values = conditions(wanted)
        columns = ", ".join(f"items.{name}" if "'" not in name else name for name in self._columns.split(", "))
        with trouble(self.path):
            count = self._connection.execute(
                f"SELECT count(*) FROM {JOINED if wanted.least is not None else 'items'} WHERE {where}", values
            )
            rows = self._connection.execute(
                f"SELECT {columns}, one.q, one.visits, two.q, two.visits FROM {JOINED} WHERE {where}"
                f" ORDER BY {WORTH} DESC, items.seq DESC LIMIT ? OFFSET ?",
                (*values, limit, offset),
            )
            return Listing([self._valued(row) for row in rows], int(count.fetchone()[0]))

    def nearest(self, query: str, embedder: Embedder, wanted: Wanted, k: int) -> list[Valued]:
        """The items nearest in meaning among those that are like that, as a run would rank them."""
        self._catch_up()
        if self._index is None:
            return []
        kinds = [kind for kind in KINDS if kind == wanted.kind] if wanted.kind else []
        others = wanted._replace(kind="", text="")
        found: list[Valued] = []
        reach = k if others == Wanted() else k * 20
        for row, similarity in self._index.nearest(grid(embedder.embed([query]))[0], reach, kinds, None, None, None):
            valued = self._at(self._seqs[row], others)
            if valued is not None:
                found.append(valued._replace(similarity=similarity))
            if len(found) == k:
                break
        return found

    def figures(self) -> Figures:
        """The bank in a few figures."""
        with trouble(self.path):
            valued = int(self._connection.execute("SELECT count(DISTINCT item) FROM q").fetchone()[0])
            return Figures(self._tally("kind"), self._count("runs"), self._count("ledger WHERE revoked = 0"), valued)

    def mark(self) -> tuple[int, int]:
        """Changes when items or values do."""
        with trouble(self.path):
            items, rows = (
                self._connection.execute(f"SELECT coalesce(max(seq), 0) FROM {table}").fetchone()[0] for table in ("items", "ledger")
            )
        return int(items), int(rows)

    def came_of(self, traces: Sequence[str]) -> dict[str, Came]:
        """By trace; those that the bank does not hold are left out."""
        found: dict[str, Came] = {}
        with trouble(self.path):
            for id in dict.fromkeys(traces):
                row = self._connection.execute("SELECT record FROM items WHERE id = ?", (id,)).fetchone()
                if row:
                    item = self._parse(row[0])
                    found[id] = Came(item.feasible, item.reason, item.latency_us)
        return found

    def values(self, name: str) -> list[str]:
        """What occurs as `kind` or `backend`."""
        if name not in ("kind", "backend"):
            raise ValueError(name)
        with trouble(self.path):
            return [row[0] for row in self._connection.execute(f"SELECT DISTINCT {name} FROM items ORDER BY 1")]

    def _at(self, seq: int, wanted: Wanted) -> Valued | None:
        where, values = conditions(wanted)
        columns = ", ".join(f"items.{name}" if "'" not in name else name for name in self._columns.split(", "))
        query = f"SELECT {columns}, one.q, one.visits, two.q, two.visits FROM {JOINED} WHERE items.seq = ? AND {where}"
        with trouble(self.path):
            row = self._connection.execute(query, (seq, *values)).fetchone()
        return self._valued(row) if row else None

    def _valued(self, row: Sequence[Any]) -> Valued:
        record, run, gone, pack, q1, visits1, q2, visits2 = row
        return Valued(Entry(self._parse(record), run, bool(gone), pack), q1, visits1 or 0, q2, visits2 or 0)

    def _catch_up(self) -> None:
        """Puts vectors into the index that were not in it yet; what is revoked since is left out when it is looked up."""
        with trouble(self.path):
            rows = self._connection.execute(
                "SELECT items.seq, kind, vector FROM items JOIN vectors USING (seq) WHERE items.seq > ? ORDER BY items.seq", (self._last,)
            )
            for seq, kind, blob in rows:
                vector = np.frombuffer(blob, "<i2")
                if self._index is None:
                    self._index = Index(len(vector))
                self._index.put(None, MemoryItem.model_construct(id="", kind=kind, backend="", title="", text=""), vector)
                self._seqs.append(seq)
                self._last = seq


def conditions(wanted: Wanted) -> tuple[str, list[Any]]:
    """As SQL, with its values."""
    parts, values = ["items.revoked = 0"], list[Any]()
    for name in ("kind", "backend"):
        if value := getattr(wanted, name):
            parts.append(f"items.{name} = ?")
            values.append(value)
    if wanted.task:
        parts.append("substr(items.task, 1, ?) = ?")
        values += [len(wanted.task), wanted.task]
    for word in wanted.text.split()[:8]:
        # The whole record first: it is quick, and few items pass; then what people wrote, without the names of fields.
        parts.append(f"(items.record LIKE ? ESCAPE '\\' AND {SAID} LIKE ? ESCAPE '\\')")
        values += [like(word)] * 2
    if wanted.least is not None:
        parts.append(f"{WORTH} >= ?")
        values.append(wanted.least)
    return " AND ".join(parts), values


def like(word: str) -> str:
    """A pattern that finds a word anywhere in a text that is written as JSON."""
    written = json.dumps(word, ensure_ascii=False)[1:-1]
    return "%" + "".join(f"\\{c}" if c in "\\%_" else c for c in written) + "%"
