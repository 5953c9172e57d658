"""Server-side search in a bank too large for memory: the server finds near embeddings by sketches, this module ranks them exactly."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from evokernel.core.protocols import ItemValue
from evokernel.core.records import MemoryItem, MemoryKind
from evokernel.memory import ledger
from evokernel.memory.index import VectorSet, cosine_similarities
from evokernel.memory.tables import BankSnapshot, Connection, placeholders, read_transaction

SKETCH_DIMS = 384
"""Dimensions of a sketch: a fixed random projection of a vector, short enough for an index that fits in memory. Bits or half precision
would be smaller, but some builds of pgvector crash the server with them on processors without the required instructions."""
EMBEDDINGS_PER_SEARCH, MAX_EMBEDDINGS_PER_SEARCH = (500, 1000), 16_000
"""Embeddings ranked in a search: the minimum, and the number that the index returns at once. If filters leave too few items, the search
widens up to the maximum, or to all embeddings if they are in memory."""
EF_SEARCH_FACTOR = 1.2
"""How many more candidates the index weighs than it returns: weighing costs less than returning, and improves recall."""
EMBEDDINGS_PER_ITEM = 8
FIRST_CHUNK = 8
SET_SCAN_OPTIONS = f"""SELECT set_config('hnsw.ef_search', ?, false), set_config('hnsw.iterative_scan', 'relaxed_order', false),
    set_config('hnsw.max_scan_tuples', '{2 * MAX_EMBEDDINGS_PER_SEARCH}', false)"""
SKETCH_EXPRESSION = f"(sketch::vector({SKETCH_DIMS}))"
NEAREST_QUERY = f"""SELECT id, vector FROM embeddings WHERE backend = ?
    ORDER BY {SKETCH_EXPRESSION} <#> ?::real[]::vector({SKETCH_DIMS}) LIMIT ?"""

CURRENT_VALUES_QUERY = """SELECT number, item, stage, scope, q, visits, (SELECT max(seq) FROM ledger
    WHERE ledger.item = item_values.item AND ledger.stage = item_values.stage AND ledger.scope = item_values.scope)
    FROM (SELECT coalesce(max(number), 0) AS number FROM consolidations) AS newest
    LEFT JOIN item_values ON item_values.item IN"""
"""The number of the last consolidation, and values with the number of their last ledger row."""


class RemoteHit(NamedTuple):
    """An item with its number in the bank and its similarity to the query."""

    seq: int
    similarity: float
    item: MemoryItem


class SearchFilter(NamedTuple):
    """The filters of a search; an empty or None filter accepts every item."""

    kinds: Sequence[MemoryKind]
    task: str | None
    bottleneck: str | None
    feasible: bool | None

    def to_sql(self) -> tuple[str, list[object]]:
        """The filters as a SQL condition with its parameters."""
        feasible = None if self.feasible is None else int(self.feasible)
        columns = [(name, value) for name, value in (("task", self.task), ("bottleneck", self.bottleneck), ("feasible", feasible))]
        conditions = [f"kind IN ({placeholders(len(self.kinds))})"] if self.kinds else []
        conditions += [f"{name} = ?" for name, value in columns if value is not None]
        return " AND ".join(["true", *conditions]), [*self.kinds, *(value for _, value in columns if value is not None)]


class RemoteIndex:
    """A run's view of a large bank, except cards and the run's own additions, which the run keeps in memory."""

    def __init__(self, connection: Connection, backend: str, snapshot: BankSnapshot, fits_in_memory: bool) -> None:
        self._connection, self._backend, self._snapshot = connection, backend, snapshot
        self._embeddings = self._load_embeddings() if fits_in_memory else None
        self._merge_cache: tuple[int, dict[str, str], set[str]] | None = None

    def on_connection(self, connection: Connection) -> RemoteIndex:
        """The same view through another connection, for another thread."""
        other = RemoteIndex(connection, self._backend, self._snapshot, fits_in_memory=False)
        if self._embeddings:
            ids, vectors = self._embeddings
            other._embeddings = (ids, vectors.copy() if vectors else None)
        return other

    def search(self, query: np.ndarray, k: int, search_filter: SearchFilter) -> list[RemoteHit]:
        """The k most similar items, most similar first, older first among equals.

        If the embeddings are not in memory, the index selects the near ones approximately; their order is exact.
        """
        if search_filter.task is not None:
            return self._search_task(query, k, search_filter)
        count = min(max(EMBEDDINGS_PER_ITEM * k, EMBEDDINGS_PER_SEARCH[0]), EMBEDDINGS_PER_SEARCH[1])
        max_count = len(self._embeddings[0]) if self._embeddings else MAX_EMBEDDINGS_PER_SEARCH
        while True:
            embeddings = self._nearest_embeddings(query, count)
            hits = self._first_items(embeddings, k, search_filter)
            if len(hits) >= k or len(embeddings) < count or count >= max_count:
                return hits
            count = min(4 * count, max_count)

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Those of these items that the snapshot contains."""
        condition = f"id IN ({placeholders(len(ids))}) AND backend = ? AND {self._snapshot.visibility_condition}"
        rows = self._query(f"SELECT record FROM items WHERE {condition}", *ids, self._backend)
        return [MemoryItem.model_validate_json(record) for (record,) in rows]

    def values(self, ids: Sequence[str]) -> dict[ledger.ValueKey, ItemValue]:
        """The values of items at the snapshot, without updates that have been revoked since."""
        current = self._connection.run_with_retries(lambda: self._current_values_if_unchanged(ids))
        return self._connection.run_with_retries(lambda: self._values_at_snapshot(ids)) if current is None else current

    def _current_values_if_unchanged(self, ids: Sequence[str]) -> dict[ledger.ValueKey, ItemValue] | None:
        """The current values in a single round trip; None if any of them changed or items were merged since the snapshot."""
        rows = self._connection.execute(f"{CURRENT_VALUES_QUERY} ({placeholders(len(ids))})", ids).fetchall()
        if self._merge_cache is None or rows[0][0] != self._merge_cache[0] or self._merge_cache[1] or self._merge_cache[2]:
            return None
        values = [row[1:] for row in rows if row[1] is not None]
        if any(last is not None and last > self._snapshot.last_update for *_, last in values):
            return None
        return {(item, stage, scope): ItemValue(q, visits) for item, stage, scope, q, visits, _ in values}

    def _values_at_snapshot(self, ids: Sequence[str]) -> dict[ledger.ValueKey, ItemValue]:
        """The values at the snapshot: current values of unchanged items, and a fold of the ledger for the others."""
        execute = self._connection.execute
        with read_transaction(self._connection):  # the ledger must not change between the queries for changed and unchanged items
            survivors, merged_later = self._load_merges()
            requested = set(ids)
            members = [*ids, *(item for item, survivor in survivors.items() if survivor in requested)]
            condition = f"item IN ({placeholders(len(members))}) AND seq > ?"
            rows = execute(f"SELECT DISTINCT item FROM ledger WHERE {condition}", (*members, self._snapshot.last_update)).fetchall()
            changed_items = merged_later | {survivors.get(row[0], row[0]) for row in rows}
            unchanged_items = [id for id in ids if id not in changed_items]
            values = ledger.load_values(self._connection, unchanged_items) if unchanged_items else {}
            if folded_items := [item for item in members if survivors.get(item, item) in changed_items]:
                condition = f"item IN ({placeholders(len(folded_items))}) AND seq <= ? ORDER BY seq"
                rows = execute(f"{ledger.ACTIVE_ROWS} AND {condition}", (*folded_items, self._snapshot.last_update)).fetchall()
                values |= ledger.fold_updates(rows, survivors)
            return values

    def _load_merges(self) -> tuple[dict[str, str], set[str]]:
        """Survivors of merged items at the snapshot, and all items merged since; read again after every consolidation."""
        (newest,) = self._connection.execute("SELECT coalesce(max(number), 0) FROM consolidations").fetchone()
        if self._merge_cache is None or self._merge_cache[0] != newest:
            last_consolidation = self._snapshot.last_consolidation
            merges = ledger.load_merged_items(self._connection)
            merged_later = {name for merge in merges if merge.consolidation > last_consolidation for name in merge[:2]}
            self._merge_cache = (newest, ledger.load_survivors(self._connection, last_consolidation), merged_later)
        return self._merge_cache[1], self._merge_cache[2]

    def _load_embeddings(self) -> tuple[list[int], VectorSet | None]:
        """All embeddings, if there are few: a million attempts on a thousand tasks have a thousand embeddings."""
        query = "SELECT id, vector FROM embeddings WHERE backend = ? ORDER BY id"
        rows = self._connection.execute(query, (self._backend,)).fetchall()
        vectors = VectorSet(len(rows[0][1]) // 2) if rows else None
        for _, vector in rows:
            assert vectors
            vectors.add_vector(np.frombuffer(vector, "<i2"))
        return [id for id, _ in rows], vectors

    def _nearest_embeddings(self, query: np.ndarray, count: int) -> list[tuple[int, float]]:
        """Ids of near embeddings with their exact similarity, most similar first."""
        if self._embeddings:
            ids, vectors = self._embeddings
            similarities = vectors.cosine_similarities(query) if vectors else np.zeros(0)
            return [(ids[row], float(similarities[row])) for row in np.argsort(-similarities, kind="stable")[:count]]

        def query_index() -> list[tuple[int, bytes]]:
            self._connection.execute(SET_SCAN_OPTIONS, (str(min(round(EF_SEARCH_FACTOR * count), EMBEDDINGS_PER_SEARCH[1])),))
            return self._connection.execute(NEAREST_QUERY, (self._backend, sketch_vector(query), count)).fetchall()

        rows = self._connection.run_with_retries(query_index)
        return rank_by_similarity([id for id, _ in rows], [vector for _, vector in rows], query)

    def _first_items(self, embeddings: list[tuple[int, float]], k: int, search_filter: SearchFilter) -> list[RemoteHit]:
        """The first k items of embeddings in this order, loaded in small chunks because one embedding may have thousands of items."""
        condition, values = search_filter.to_sql()
        hits: list[tuple[float, int]] = []
        first, size = 0, FIRST_CHUNK
        while first < len(embeddings) and len(hits) < k:
            last = min(first + size, len(embeddings))
            while last < len(embeddings) and embeddings[last][1] == embeddings[last - 1][1]:
                last += 1  # equally similar embeddings are ordered together
            chunk = dict(embeddings[first:last])
            rows = self._query(
                f"""SELECT chunk.id, seq FROM unnest(?::bigint[]) AS chunk(id) CROSS JOIN LATERAL
                (SELECT seq FROM items WHERE items.embedding = chunk.id AND {self._snapshot.visibility_condition}
                AND task IS NOT NULL AND {condition} ORDER BY seq LIMIT ?) AS first_items""",
                list(chunk),
                *values,
                k - len(hits),
            )
            hits += sorted((-chunk[id], seq) for id, seq in rows)[: k - len(hits)]
            first, size = last, 2 * size
        if not hits:
            return []
        records = dict(self._query(f"SELECT seq, record FROM items WHERE seq IN ({placeholders(len(hits))})", *(seq for _, seq in hits)))
        return [RemoteHit(seq, -distance, MemoryItem.model_validate_json(records[seq])) for distance, seq in hits]

    def _search_task(self, query: np.ndarray, k: int, search_filter: SearchFilter) -> list[RemoteHit]:
        """Search one task by ranking all of its embeddings, because a task has few."""
        rows = self._query(
            "SELECT id, vector FROM embeddings WHERE id IN (SELECT embedding FROM items WHERE backend = ? AND task = ?)",
            self._backend,
            search_filter.task,
        )
        return self._first_items(rank_by_similarity([id for id, _ in rows], [vector for _, vector in rows], query), k, search_filter)

    def _query(self, statement: str, *values: object) -> list[Any]:
        return self._connection.run_with_retries(lambda: self._connection.execute(statement, values).fetchall())


def rank_by_similarity(ids: Sequence[int], vectors: Sequence[bytes], query: np.ndarray) -> list[tuple[int, float]]:
    """Ids of vectors with their exact similarity, most similar first."""
    if not ids:
        return []
    matrix = np.frombuffer(b"".join(vectors), "<i2").reshape(len(ids), -1).astype(np.float32)
    norms = np.maximum(np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64)), 1.0)
    similarities = cosine_similarities(matrix, norms, query)
    return [(ids[row], float(similarities[row])) for row in np.argsort(-similarities, kind="stable")]


def sketch_vector(vector: np.ndarray) -> list[float]:
    """The sketch of a quantized vector: its random projection, scaled to unit length."""
    projection = vector.astype(np.float32) @ projection_matrix(len(vector))
    sketch: list[float] = (projection / max(float(np.linalg.norm(projection)), 1e-12)).tolist()
    return sketch


@cache
def projection_matrix(dim: int) -> np.ndarray:
    """The random projection for vectors of this dimension, equal on every machine."""
    return np.random.default_rng(dim).standard_normal((dim, SKETCH_DIMS), np.float32)
