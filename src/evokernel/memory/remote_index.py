"""A bank too large to be held in memory: the server looks for what is near, by sketches of the vectors, and here it is put in order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from evokernel.core.protocols import ItemValue
from evokernel.core.records import MemoryItem, MemoryKind
from evokernel.memory import ledger
from evokernel.memory.index import Vectors, cosines
from evokernel.memory.tables import Connection, Mark, places, reading

DIMS = 384
"""Of a sketch: a vector's fixed random projection, short enough for an index that fits in memory. Not bits nor half precision, which would
be smaller: pgvector as some build it ends the server on processors without the instructions for these."""
NEAR, MOST = (500, 1000), 16_000
"""Keys looked at for a search, at least and as the index gives them at once; and where filters leave too few, at most, unless all keys
are held: then these."""
WIDER = 1.2
"""How many more the index weighs than it gives: that costs less than giving them, and finds more."""
PER_ITEM = 8
CHUNK = 8
SCAN = f"""SELECT set_config('hnsw.ef_search', ?, false), set_config('hnsw.iterative_scan', 'relaxed_order', false),
    set_config('hnsw.max_scan_tuples', '{2 * MOST}', false)"""
SKETCH = f"(sketch::vector({DIMS}))"
NEAREST = f"SELECT id, vector FROM keys WHERE backend = ? ORDER BY {SKETCH} <#> ?::real[]::vector({DIMS}) LIMIT ?"

AS_THEY_ARE = """SELECT number, item, stage, scope, q, visits, (SELECT max(seq) FROM ledger
    WHERE ledger.item = q.item AND ledger.stage = q.stage AND ledger.scope = q.scope)
    FROM (SELECT coalesce(max(number), 0) AS number FROM consolidations) AS newest LEFT JOIN q ON q.item IN"""
"""Values, with the row of the ledger that made each, and the latest consolidation."""


class Hit(NamedTuple):
    """An item, how near it is, and its number in the bank."""

    seq: int
    similarity: float
    item: MemoryItem


class Asked(NamedTuple):
    """What a search leaves through."""

    kinds: Sequence[MemoryKind]
    task: str | None
    bottleneck: str | None
    feasible: bool | None

    def where(self) -> tuple[str, list[object]]:
        """As a statement says it, with its values."""
        feasible = None if self.feasible is None else int(self.feasible)
        given = [(name, value) for name, value in (("task", self.task), ("bottleneck", self.bottleneck), ("feasible", feasible))]
        words = [f"kind IN ({places(len(self.kinds))})"] if self.kinds else []
        words += [f"{name} = ?" for name, value in given if value is not None]
        return " AND ".join(["true", *words]), [*self.kinds, *(value for _, value in given if value is not None)]


class Far:
    """What a run sees of a large bank, but for cards and its own additions: those it holds itself."""

    def __init__(self, connection: Connection, backend: str, mark: Mark, few_keys: bool) -> None:
        self._connection, self._backend, self._mark = connection, backend, mark
        self._keys_held = self._load() if few_keys else None
        self._known: tuple[int, dict[str, str], set[str]] | None = None

    def nearest(self, query: np.ndarray, k: int, asked: Asked) -> list[Hit]:
        """The k nearest, nearest first, older first among equals. Which keys are near is the index's guess where there are many; their
        order is exact."""
        if asked.task is not None:
            return self._of_task(query, k, asked)
        look = min(max(PER_ITEM * k, NEAR[0]), NEAR[1])
        most = len(self._keys_held[0]) if self._keys_held else MOST
        while True:
            keys = self._keys(query, look)
            found = self._items(keys, k, asked)
            if len(found) >= k or len(keys) < look or look >= most:
                return found
            look = min(4 * look, most)

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Those of these items that were there."""
        which = f"id IN ({places(len(ids))}) AND backend = ? AND {self._mark.seen}"
        rows = self._read(f"SELECT record FROM items WHERE {which}", *ids, self._backend)
        return [MemoryItem.model_validate_json(record) for (record,) in rows]

    def values(self, ids: Sequence[str]) -> dict[ledger.Key, ItemValue]:
        """Q of items as it was, without what has been revoked since."""
        found = self._connection.again(lambda: self._unmoved(ids))
        return self._connection.again(lambda: self._values(ids)) if found is None else found

    def _unmoved(self, ids: Sequence[str]) -> dict[ledger.Key, ItemValue] | None:
        """The same in one question, as a server may be far away; None where somebody learned since, or items were merged."""
        rows = self._connection.execute(f"{AS_THEY_ARE} ({places(len(ids))})", ids).fetchall()
        if self._known is None or rows[0][0] != self._known[0] or self._known[1] or self._known[2]:
            return None
        values = [row[1:] for row in rows if row[1] is not None]
        if any(last is not None and last > self._mark.ledger for *_, last in values):
            return None
        return {(item, stage, scope): ItemValue(q, visits) for item, stage, scope, q, visits, _ in values}

    def _values(self, ids: Sequence[str]) -> dict[ledger.Key, ItemValue]:
        asked = self._connection.execute
        with reading(self._connection):  # nobody learns between the look at what moved and the look at what did not
            roots, later = self._merges()
            wanted = set(ids)
            members = [*ids, *(item for item, root in roots.items() if root in wanted)]
            which = f"item IN ({places(len(members))}) AND seq > ?"
            rows = asked(f"SELECT DISTINCT item FROM ledger WHERE {which}", (*members, self._mark.ledger)).fetchall()
            moved = later | {roots.get(row[0], row[0]) for row in rows}
            still = [id for id in ids if id not in moved]
            found = ledger.values_of(self._connection, still) if still else {}
            if folded := [item for item in members if roots.get(item, item) in moved]:
                which = f"item IN ({places(len(folded))}) AND seq <= ? ORDER BY seq"
                found |= ledger.fold(asked(f"{ledger.LIVE} AND {which}", (*folded, self._mark.ledger)).fetchall(), roots)
            return found

    def _merges(self) -> tuple[dict[str, str], set[str]]:
        """What merged items counted for at the mark, and what has been merged since; read again when the bank was tidied."""
        (newest,) = self._connection.execute("SELECT coalesce(max(number), 0) FROM consolidations").fetchone()
        if self._known is None or self._known[0] != newest:
            links = ledger.links(self._connection)
            later = {name for link in links if link.at > self._mark.consolidations for name in link[:2]}
            self._known = (newest, ledger.survivors(self._connection, self._mark.consolidations), later)
        return self._known[1], self._known[2]

    def _load(self) -> tuple[list[int], Vectors | None]:
        """All keys, where they are few: a million attempts on a thousand tasks have a thousand."""
        rows = self._connection.execute("SELECT id, vector FROM keys WHERE backend = ? ORDER BY id", (self._backend,)).fetchall()
        held = Vectors(len(rows[0][1]) // 2) if rows else None
        for _, vector in rows:
            assert held
            held.put(np.frombuffer(vector, "<i2"))
        return [id for id, _ in rows], held

    def _keys(self, query: np.ndarray, look: int) -> list[tuple[int, float]]:
        """Keys that are near, with their exact similarity, nearest first."""
        if self._keys_held:
            ids, held = self._keys_held
            near = held.cosines(query) if held else np.zeros(0)
            return [(ids[row], float(near[row])) for row in np.argsort(-near, kind="stable")[:look]]

        def ask() -> list[tuple[int, bytes]]:
            self._connection.execute(SCAN, (str(min(round(WIDER * look), NEAR[1])),))
            return self._connection.execute(NEAREST, (self._backend, sketch(query), look)).fetchall()

        rows = self._connection.again(ask)
        return ranked([id for id, _ in rows], [vector for _, vector in rows], query)

    def _items(self, keys: list[tuple[int, float]], k: int, asked: Asked) -> list[Hit]:
        """The first k items of keys in this order; few keys are asked for at a time, as each may have thousands of items."""
        where, values = asked.where()
        found: list[tuple[float, int]] = []
        first, size = 0, CHUNK
        while first < len(keys) and len(found) < k:
            last = min(first + size, len(keys))
            while last < len(keys) and keys[last][1] == keys[last - 1][1]:
                last += 1  # equally near ones are put in order together
            part = dict(keys[first:last])
            rows = self._read(
                f"""SELECT near.key, seq FROM unnest(?::bigint[]) AS near(key) CROSS JOIN LATERAL
                (SELECT seq FROM items WHERE items.key = near.key AND {self._mark.seen} AND task IS NOT NULL AND {where}
                ORDER BY seq LIMIT ?) AS held""",
                list(part),
                *values,
                k - len(found),
            )
            found += sorted((-part[key], seq) for key, seq in rows)[: k - len(found)]
            first, size = last, 2 * size
        if not found:
            return []
        records = dict(self._read(f"SELECT seq, record FROM items WHERE seq IN ({places(len(found))})", *(seq for _, seq in found)))
        return [Hit(seq, -near, MemoryItem.model_validate_json(records[seq])) for near, seq in found]

    def _of_task(self, query: np.ndarray, k: int, asked: Asked) -> list[Hit]:
        """A task has few keys: all of them are looked at."""
        rows = self._read(
            "SELECT id, vector FROM keys WHERE id IN (SELECT key FROM items WHERE backend = ? AND task = ?)", self._backend, asked.task
        )
        return self._items(ranked([id for id, _ in rows], [vector for _, vector in rows], query), k, asked)

    def _read(self, statement: str, *values: object) -> list[Any]:
        return self._connection.again(lambda: self._connection.execute(statement, values).fetchall())


def ranked(ids: Sequence[int], vectors: Sequence[bytes], query: np.ndarray) -> list[tuple[int, float]]:
    """Keys with their exact similarity, nearest first."""
    if not ids:
        return []
    held = np.frombuffer(b"".join(vectors), "<i2").reshape(len(ids), -1).astype(np.float32)
    norms = np.maximum(np.sqrt(np.einsum("ij,ij->i", held, held, dtype=np.float64)), 1.0)
    near = cosines(held, norms, query)
    return [(ids[row], float(near[row])) for row in np.argsort(-near, kind="stable")]


def sketch(vector: np.ndarray) -> list[float]:
    """Of a vector on the grid."""
    made = vector.astype(np.float32) @ projections(len(vector))
    unit: list[float] = (made / max(float(np.linalg.norm(made)), 1e-12)).tolist()
    return unit


@cache
def projections(dim: int) -> np.ndarray:
    """The same on every machine."""
    return np.random.default_rng(dim).standard_normal((dim, DIMS), np.float32)
