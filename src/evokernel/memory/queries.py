"""A bank page by page: filters, words and meaning over many items, without parsing more of them than are shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np

from evokernel.core.bank_uri import BankLocation
from evokernel.core.protocols import Embedder
from evokernel.memory.bank import parse
from evokernel.memory.index import grid, norm
from evokernel.memory.reader import Archive, Entry
from evokernel.memory.schema import trouble
from evokernel.memory.tables import Connection, places

BATCH, KEPT, MOST_WORDS = 4096, 8, 8
Rows = list[tuple[int, str]]
"""Numbers and ids of items."""


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


class Values(NamedTuple):
    """Both values of an item."""

    q1: float | None = None
    visits1: int = 0
    q2: float | None = None
    visits2: int = 0

    @property
    def worth(self) -> float:
        """The better of both; less than any value where nothing was learned."""
        return max((q for q in (self.q1, self.q2) if q is not None), default=-inf)


class Browser(Archive):
    """An archive that is asked again and again while runs write to it."""

    def __init__(self, path: BankLocation) -> None:
        super().__init__(path)
        self._vectors: list[np.ndarray] = []
        self._norms, self._seqs = np.zeros(0), np.zeros(0, np.int64)
        self._found: dict[tuple[str, Wanted], Rows] = {}
        self._known: tuple[str, dict[str, Values]] = ("", {})
        self._figures: tuple[str, Figures] | None = None

    def page(self, wanted: Wanted, limit: int, offset: int = 0) -> Listing:
        """Items that are like that, the most valuable first, newer first among equals."""
        rows = self._matches(wanted)
        return Listing(self._valued(rows[offset : offset + limit]), len(rows))

    def nearest(self, query: str, embedder: Embedder, wanted: Wanted, k: int) -> list[Valued]:
        """The items nearest in meaning among those that are like that, as a run would rank them; `text` does not matter."""
        self._catch_up()
        rows = self._matches(wanted._replace(text=""))
        ids = dict(rows)
        keep = np.flatnonzero(np.isin(self._seqs, np.fromiter(ids, np.int64, len(ids))))
        if not len(keep):
            return []
        near = self._cosines(grid(embedder.embed([query]))[0])[keep]
        order = np.lexsort((keep, -near))[:k]
        best = [int(self._seqs[keep[place]]) for place in order]
        shown = self._valued([(seq, ids[seq]) for seq in best])
        return [one._replace(similarity=float(near[place])) for one, place in zip(shown, order, strict=True)]

    def _matches(self, wanted: Wanted) -> Rows:
        """In the order in which they are shown; remembered until the bank changes."""
        key = (self.mark(), wanted)
        if key not in self._found:
            where, values = conditions(wanted, self._connection)
            asked = f"SELECT seq, id FROM items WHERE {self._live} AND {where} ORDER BY seq DESC"
            with trouble(self.path):
                rows = self._connection.execute(asked, values).fetchall()
            known, nothing = self._values(), Values()
            if wanted.least is not None:
                rows = [row for row in rows if known.get(row[1], nothing).worth >= wanted.least]
            rows.sort(key=lambda row: -known[row[1]].worth if row[1] in known else inf)
            while len(self._found) >= KEPT:
                self._found.pop(next(iter(self._found)))
            self._found[key] = rows
        return self._found[key]

    def _values(self) -> dict[str, Values]:
        """Of every item that something was learned about."""
        mark = self.mark()
        if self._known[0] != mark:
            found: dict[str, Values] = {}
            with trouble(self.path):
                for item, stage, q, visits in self._connection.execute("SELECT item, stage, q, visits FROM q WHERE scope = ''"):
                    old = found.get(item, Values())
                    found[item] = old._replace(q1=q, visits1=visits) if stage == "draft" else old._replace(q2=q, visits2=visits)
            self._known = (mark, found)
        return self._known[1]

    def figures(self) -> Figures:
        """The bank in a few figures, counted again when it has changed."""
        mark = self.mark()
        if self._figures is None or self._figures[0] != mark:
            with trouble(self.path):
                counts = self._count("runs"), self._count("ledger WHERE revoked = 0"), len(self._values())
                self._figures = (mark, Figures(self._tally("kind"), *counts))
        return self._figures[1]

    def mark(self) -> str:
        """Another one after anybody wrote to the bank."""
        with trouble(self.path):
            return self._connection.state()

    def came_of(self, traces: Sequence[str]) -> dict[str, Came]:
        """By trace; those that the bank does not hold are left out."""
        names = list(dict.fromkeys(traces))
        asked = f"SELECT record FROM items WHERE id IN ({places(len(names))})"
        with trouble(self.path):
            rows = self._connection.execute(asked, names).fetchall() if names else []
        items = [parse(self.path, record) for (record,) in rows]
        return {item.id: Came(item.feasible, item.reason, item.latency_us) for item in items}

    def values(self, name: str) -> list[str]:
        """What occurs as `kind` or `backend`."""
        if name not in ("kind", "backend"):
            raise ValueError(name)
        with trouble(self.path):
            return [row[0] for row in self._connection.execute(f"SELECT DISTINCT {name} FROM items ORDER BY 1")]

    def _valued(self, rows: Rows) -> list[Valued]:
        """Items with their values, asked for together: a server may be far away."""
        if not rows:
            return []
        known, nothing = self._values(), Values()
        with trouble(self.path):
            asked = f"SELECT seq, {self._columns} FROM items WHERE seq IN ({places(len(rows))})"
            found = {row[0]: self._entry(*row[1:]) for row in self._connection.execute(asked, [seq for seq, _ in rows])}
        return [Valued(found[seq], *known.get(id, nothing)) for seq, id in rows]

    def _catch_up(self) -> None:
        """Takes vectors that were not here yet, as the integers that are stored; revoked items are left out when they are looked up."""
        last = int(self._seqs[-1]) if len(self._seqs) else 0
        with trouble(self.path):
            asked = f"SELECT seq, vector FROM vectors WHERE seq > ? ORDER BY seq LIMIT {BATCH}"
            while batch := self._connection.execute(asked, (last,)).fetchall():
                last = batch[-1][0]
                vectors = np.frombuffer(b"".join(blob for _, blob in batch), "<i2").reshape(len(batch), -1)
                wide = vectors.astype(np.float64)
                self._vectors.append(vectors)
                self._norms = np.concatenate([self._norms, np.maximum(np.sqrt(np.einsum("ij,ij->i", wide, wide)), 1.0)])
                self._seqs = np.concatenate([self._seqs, np.array([seq for seq, _ in batch], np.int64)])

    def _cosines(self, query: np.ndarray) -> np.ndarray:
        """Of the query with every vector; sums of such integers are exact, in whatever order (see `Index`)."""
        wide = query.astype(np.float32)
        dots = np.concatenate([vectors.astype(np.float32) @ wide for vectors in self._vectors])
        found: np.ndarray = dots / (self._norms * norm(query))
        return found


def conditions(wanted: Wanted, bank: Connection) -> tuple[str, list[Any]]:
    """As SQL, with its values."""
    parts, values = ["true"], list[Any]()
    for name in ("kind", "backend"):
        if value := getattr(wanted, name):
            parts.append(f"{name} = ?")
            values.append(value)
    if wanted.task:
        parts.append("substr(task, 1, ?) = ?")
        values += [len(wanted.task), wanted.task]
    words = [like(word) for word in wanted.text.split()[:MOST_WORDS]]
    said = f"id || '\n' || {bank.words['texts']}"
    for text in ("record", said):  # the whole record first: few items pass; then only what people wrote, without the names of fields
        parts += [f"{text} {bank.words['like']} ? ESCAPE '\\'"] * len(words)
        values += words
    return " AND ".join(parts), values


def like(word: str) -> str:
    """A pattern that finds a word anywhere in a text that is written as JSON."""
    written = json.dumps(word, ensure_ascii=False)[1:-1]
    return "%" + "".join(f"\\{c}" if c in "\\%_" else c for c in written) + "%"
