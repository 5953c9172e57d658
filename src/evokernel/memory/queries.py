"""Paged queries over a bank for the dashboard: filters, words and similarity, parsing only the items that are shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np

from evokernel.core.bank_uri import BankLocation
from evokernel.core.protocols import Embedder
from evokernel.core.records import MemoryItem
from evokernel.memory.index import quantize_vectors, vector_norm
from evokernel.memory.item_rows import parse_item
from evokernel.memory.reader import ITEM_COLUMNS, VISIBLE, BankItem, BankReader
from evokernel.memory.schema import translate_db_errors
from evokernel.memory.tables import Connection, placeholders

BATCH, MAX_CACHED_QUERIES, MAX_WORDS = 4096, 8, 8
ItemRows = list[tuple[int, str]]
"""Numbers and ids of items."""


class ItemQuery(NamedTuple):
    """The filters of a query; an empty filter accepts every item."""

    text: str = ""
    """Words that must all occur, in any case."""
    kind: str = ""
    backend: str = ""
    task: str = ""
    """The beginning of a task id."""
    min_value: float | None = None
    """Lower bound of the higher of both values."""


class ValuedItem(NamedTuple):
    """An item with its values Q1 and Q2, each None if it has no updates."""

    entry: BankItem
    q1: float | None
    visits1: int
    q2: float | None
    visits2: int
    similarity: float | None = None


class ItemPage(NamedTuple):
    """One page of items, and the total number of matches."""

    items: list[ValuedItem]
    total: int


class BankSummary(NamedTuple):
    """The main counts of a bank."""

    kinds: dict[str, int]
    runs: int
    updates: int
    items_with_values: int


class AttemptResult(NamedTuple):
    """The outcome of an attempt, as stored in its trace."""

    feasible: bool | None
    reason: str
    latency_us: float | None


class ItemValueChange(NamedTuple):
    """The value of an item before and after an attempt."""

    before: float
    after: float


class ShownItemFacts(NamedTuple):
    """What a bank stores about an item that an attempt was shown."""

    item: MemoryItem | None = None
    change: ItemValueChange | None = None
    """None if the attempt did not update its value."""
    visits: int | None = None
    """Updates of its value at the attempt's stage up to now."""


class ItemValues(NamedTuple):
    """Both values of an item."""

    q1: float | None = None
    visits1: int = 0
    q2: float | None = None
    visits2: int = 0

    @property
    def best_value(self) -> float:
        """The higher of both values; minus infinity without updates."""
        return max((q for q in (self.q1, self.q2) if q is not None), default=-inf)


class BankBrowser(BankReader):
    """A reader that answers repeated queries while runs write to the bank."""

    def __init__(self, path: BankLocation) -> None:
        super().__init__(path)
        self._vectors: list[np.ndarray] = []
        self._norms, self._seqs = np.zeros(0), np.zeros(0, np.int64)
        self._query_cache: dict[tuple[str, ItemQuery], ItemRows] = {}
        self._values_cache: tuple[str, dict[str, ItemValues]] = ("", {})
        self._summary_cache: tuple[str, BankSummary] | None = None

    def list_page(self, query: ItemQuery, limit: int, offset: int = 0) -> ItemPage:
        """One page of the items that match, highest value first, newer first among equals."""
        rows = self._find_rows(query)
        return ItemPage(self._load_valued_items(rows[offset : offset + limit]), len(rows))

    def search_nearest(self, text: str, embedder: Embedder, query: ItemQuery, k: int) -> list[ValuedItem]:
        """The k items most similar to `text` among those that match, ranked as in a run; `query.text` is ignored."""
        self._load_new_vectors()
        rows = self._find_rows(query._replace(text=""))
        ids = dict(rows)
        positions = np.flatnonzero(np.isin(self._seqs, np.fromiter(ids, np.int64, len(ids))))
        if not len(positions):
            return []
        similarities = self._cosine_similarities(quantize_vectors(embedder.embed([text]))[0])[positions]
        order = np.lexsort((positions, -similarities))[:k]
        best = [int(self._seqs[positions[place]]) for place in order]
        items = self._load_valued_items([(seq, ids[seq]) for seq in best])
        return [item._replace(similarity=float(similarities[place])) for item, place in zip(items, order, strict=True)]

    def _find_rows(self, query: ItemQuery) -> ItemRows:
        """All matching rows in the order of the pages; cached until the bank changes."""
        key = (self.change_token(), query)
        if key not in self._query_cache:
            condition, parameters = sql_conditions(query, self._connection)
            statement = f"SELECT seq, id FROM items WHERE {VISIBLE} AND {condition} ORDER BY seq DESC"
            with translate_db_errors(self.path):
                rows = self._connection.execute(statement, parameters).fetchall()
            values, no_values = self._load_values(), ItemValues()
            if query.min_value is not None:
                rows = [row for row in rows if values.get(row[1], no_values).best_value >= query.min_value]
            rows.sort(key=lambda row: -values[row[1]].best_value if row[1] in values else inf)
            while len(self._query_cache) >= MAX_CACHED_QUERIES:
                self._query_cache.pop(next(iter(self._query_cache)))
            self._query_cache[key] = rows
        return self._query_cache[key]

    def _load_values(self) -> dict[str, ItemValues]:
        """The values of every item that has updates; cached until the bank changes."""
        token = self.change_token()
        if self._values_cache[0] != token:
            values: dict[str, ItemValues] = {}
            with translate_db_errors(self.path):
                rows = self._connection.execute("SELECT item, stage, q, visits FROM item_values WHERE scope = ''")
                for item, stage, q, visits in rows:
                    old = values.get(item, ItemValues())
                    values[item] = old._replace(q1=q, visits1=visits) if stage == "draft" else old._replace(q2=q, visits2=visits)
            self._values_cache = (token, values)
        return self._values_cache[1]

    def summarize(self) -> BankSummary:
        """The main counts of the bank; cached until the bank changes."""
        token = self.change_token()
        if self._summary_cache is None or self._summary_cache[0] != token:
            with translate_db_errors(self.path):
                counts = self._count_rows("runs"), self._count_rows("ledger WHERE revoked = 0"), len(self._load_values())
                self._summary_cache = (token, BankSummary(self._count_by("kind"), *counts))
        return self._summary_cache[1]

    def change_token(self) -> str:
        """A string that changes whenever any process writes to the bank."""
        with translate_db_errors(self.path):
            return self._connection.change_token()

    def attempt_results(self, traces: Sequence[str]) -> dict[str, AttemptResult]:
        """Outcomes by trace id; traces that the bank does not have are left out."""
        ids = list(dict.fromkeys(traces))
        statement = f"SELECT record FROM items WHERE id IN ({placeholders(len(ids))})"
        with translate_db_errors(self.path):
            rows = self._connection.execute(statement, ids).fetchall() if ids else []
        items = [parse_item(self.path, record) for (record,) in rows]
        return {item.id: AttemptResult(item.feasible, item.reason, item.latency_us) for item in items}

    def describe_shown_items(self, ids: Sequence[str], run: str, attempt: str, stage: str) -> dict[str, ShownItemFacts]:
        """What the bank stores about the items that an attempt was shown, by id: the item, its value before and after, its visits."""
        ids = list(dict.fromkeys(ids))
        marks = placeholders(len(ids))
        with translate_db_errors(self.path):
            records = self._connection.execute(f"SELECT id, record FROM items WHERE id IN ({marks})", ids).fetchall()
            condition = "run = ? AND attempt = ? AND stage = ? AND revoked = 0"
            updates = self._connection.execute(
                f"SELECT item, q_before, q_after FROM ledger WHERE {condition} ORDER BY scope DESC", (run, attempt, stage)
            ).fetchall()
            visits = self._connection.execute(
                f"SELECT item, visits FROM item_values WHERE scope = '' AND stage = ? AND item IN ({marks})", (stage, *ids)
            ).fetchall()
        items = {id: parse_item(self.path, record) for id, record in records}
        changes = {item: ItemValueChange(before, after) for item, before, after in updates}
        counts = dict(visits)
        return {id: ShownItemFacts(items.get(id), changes.get(id), counts.get(id, 0)) for id in ids}

    def load_titles(self, ids: Sequence[str]) -> dict[str, str]:
        """Titles by id; items that the bank does not have, or that have no title, are left out."""
        ids = list(dict.fromkeys(ids))
        with translate_db_errors(self.path):
            statement = f"SELECT record FROM items WHERE id IN ({placeholders(len(ids))})"
            rows = self._connection.execute(statement, ids).fetchall() if ids else []
        items = [parse_item(self.path, record) for (record,) in rows]
        return {item.id: item.title for item in items if item.title}

    def distinct_values(self, column: str) -> list[str]:
        """All values of the column `kind` or `backend`."""
        if column not in ("kind", "backend"):
            raise ValueError(column)
        with translate_db_errors(self.path):
            return [row[0] for row in self._connection.execute(f"SELECT DISTINCT {column} FROM items ORDER BY 1")]

    def _load_valued_items(self, rows: ItemRows) -> list[ValuedItem]:
        """Items with their values, in one query because a server may be far away."""
        if not rows:
            return []
        values, no_values = self._load_values(), ItemValues()
        with translate_db_errors(self.path):
            statement = f"SELECT seq, {ITEM_COLUMNS} FROM items WHERE seq IN ({placeholders(len(rows))})"
            items = {row[0]: self._parse_row(*row[1:]) for row in self._connection.execute(statement, [seq for seq, _ in rows])}
        return [ValuedItem(items[seq], *values.get(id, no_values)) for seq, id in rows]

    def _load_new_vectors(self) -> None:
        """Load vectors stored since the last call, as integers. Vectors of revoked items stay; queries leave these items out."""
        last = int(self._seqs[-1]) if len(self._seqs) else 0
        with translate_db_errors(self.path):
            statement = f"SELECT seq, vector FROM vectors WHERE seq > ? ORDER BY seq LIMIT {BATCH}"
            while batch := self._connection.execute(statement, (last,)).fetchall():
                last = batch[-1][0]
                vectors = np.frombuffer(b"".join(blob for _, blob in batch), "<i2").reshape(len(batch), -1)
                wide = vectors.astype(np.float64)
                self._vectors.append(vectors)
                self._norms = np.concatenate([self._norms, np.maximum(np.sqrt(np.einsum("ij,ij->i", wide, wide)), 1.0)])
                self._seqs = np.concatenate([self._seqs, np.array([seq for seq, _ in batch], np.int64)])

    def _cosine_similarities(self, query: np.ndarray) -> np.ndarray:
        """Similarities of the query to every vector; sums of such integers are exact in any order (see `ExactIndex`)."""
        wide = query.astype(np.float32)
        dots = np.concatenate([vectors.astype(np.float32) @ wide for vectors in self._vectors])
        similarities: np.ndarray = dots / (self._norms * vector_norm(query))
        return similarities


def sql_conditions(query: ItemQuery, bank: Connection) -> tuple[str, list[Any]]:
    """The filters as a SQL condition with its parameters."""
    conditions, values = ["true"], list[Any]()
    for name in ("kind", "backend"):
        if value := getattr(query, name):
            conditions.append(f"{name} = ?")
            values.append(value)
    if query.task:
        conditions.append("substr(task, 1, ?) = ?")
        values += [len(query.task), query.task]
    patterns = [like_pattern(word) for word in query.text.split()[:MAX_WORDS]]
    searchable_text = f"id || '\n' || {bank.sql_dialect['searchable_text']}"
    # The complete record first, which few items pass; then only its texts, because names of JSON fields must not match.
    for text in ("record", searchable_text):
        conditions += [f"{text} {bank.sql_dialect['like']} ? ESCAPE '\\'"] * len(patterns)
        values += patterns
    return " AND ".join(conditions), values


def like_pattern(word: str) -> str:
    """A LIKE pattern that matches a word anywhere in a JSON text."""
    escaped = json.dumps(word, ensure_ascii=False)[1:-1]
    return "%" + "".join(f"\\{c}" if c in "\\%_" else c for c in escaped) + "%"
