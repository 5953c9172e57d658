"""The memory bank that a run reads and writes: it shows the bank as it was when the run began, plus the run's own additions."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from math import isfinite
from pathlib import Path

import numpy as np

from evokernel.core.bank_uri import BankLocation, parse_location
from evokernel.core.errors import UserError
from evokernel.core.memory_ids import is_note_id, make_trace_id, split_trace_id
from evokernel.core.protocols import Embedder, ItemValue, SearchHit
from evokernel.core.records import MemoryItem, MemoryKind, Stage
from evokernel.memory import ledger, provenance
from evokernel.memory.bank_view import BankView
from evokernel.memory.distill import QUARANTINED_REASONS
from evokernel.memory.index import ExactIndex, quantize_vectors
from evokernel.memory.item_rows import claim_embedder, embedding_text, parse_item, store_item
from evokernel.memory.reader import BankReader
from evokernel.memory.remote_index import RemoteIndex, SearchFilter
from evokernel.memory.schema import open_or_create, other_bank_hint, translate_db_errors
from evokernel.memory.tables import BankSnapshot, Connection, SearchMode, read_transaction

log = logging.getLogger(__name__)
CANDIDATE_PREFIX = "candidate:"
LEARNED_KINDS: tuple[MemoryKind, ...] = ("experience", "trace", "practice")
"""Kinds of items that a run adds. Practice items may also be cards; API items always are."""
EMBEDDING_CACHE_SIZE = 1024  # texts: a task's reference is the query of every round and the key of every attempt


class Bank:
    """The memory M with its values (implements MemoryStore).

    The answers depend on the snapshot that this run id took when it first opened the bank and on this process's own `add` and `update`.
    They never depend on what other runs write meanwhile. Repeating an `add` or `update` changes nothing in the bank, so a resumed run
    can replay its journal and sees the same memory as an uninterrupted run.
    """

    def __init__(self, path: BankLocation, connection: Connection, embedder: Embedder, backend: str, run: str) -> None:
        self.path, self.backend, self.run = path, backend, run
        self.is_resumed = False
        """Whether this run id had opened the bank before."""
        self.has_own_items = False
        """Whether the run had already added items to the bank."""
        self._connection, self._embedder = connection, embedder
        self._embedding_cache: OrderedDict[str, np.ndarray] = OrderedDict()
        self._index: ExactIndex | None = None
        self._items: list[MemoryItem] = []
        self._rows: dict[str, int] = {}
        self._values: dict[ledger.ValueKey, ItemValue] = {}
        self._applied_updates: set[tuple[str, ledger.ValueKey]] = set()
        self._revoked_ids: set[str] = set()
        self._remote_index: RemoteIndex | None = None
        self._remote_items: dict[str, MemoryItem] = {}
        self._loaded_value_ids: set[str] = set()
        self._view: BankView | None = None
        """The view of the present state, until it changes."""
        self._view_lock = threading.Lock()
        self._view_connection: Connection | None = None
        self._view_remote_index: RemoteIndex | None = None
        """Views of a bank that is searched on its server share a connection of their own."""

    @classmethod
    def open(
        cls,
        path: BankLocation,
        embedder: Embedder,
        *,
        backend: str,
        run: str,
        folder: Path | None = None,
        metadata: provenance.RunMetadata | None = None,
    ) -> Bank:
        """Open the bank for a new or resumed run, and create it if it does not exist.

        `folder` holds the run's journal, which a later revocation marks. `metadata` is the provenance that packs store with the items.
        """
        path = parse_location(path)
        connection = open_or_create(path)
        with ExitStack() as cleanup, translate_db_errors(path):
            cleanup.callback(connection.close)
            bank = cls(path, connection, embedder, backend, run)
            snapshot = connection.run_in_transaction(lambda: bank._register_run(folder, metadata))
            connection.run_with_retries(lambda: bank._load_snapshot(snapshot))
            cleanup.pop_all()
        return bank

    def _register_run(self, folder: Path | None, metadata: provenance.RunMetadata | None) -> BankSnapshot:
        """The snapshot of this run: read from the bank, or taken now if the run opens the bank for the first time."""
        connection = self._connection
        claim_embedder(connection, self.path, self._embedder)
        query = "SELECT last_item, last_update, last_consolidation FROM runs WHERE id = ?"
        snapshot = connection.execute(query, (self.run,)).fetchone()
        self.is_resumed = snapshot is not None
        self.has_own_items = connection.execute("SELECT 1 FROM items WHERE run = ? LIMIT 1", (self.run,)).fetchone() is not None
        if not snapshot:
            last_item = connection.execute("SELECT coalesce(max(seq), 0) FROM items").fetchone()[0]
            last_consolidation = connection.execute("SELECT coalesce(max(number), 0) FROM consolidations").fetchone()[0]
            snapshot = (last_item, ledger.last_update_number(connection), last_consolidation)
            columns = "id, backend, last_item, last_update, last_consolidation"
            connection.execute(f"INSERT INTO runs ({columns}) VALUES (?, ?, ?, ?, ?)", (self.run, self.backend, *snapshot))
        if folder:
            connection.execute("UPDATE runs SET folder = ? WHERE id = ?", (str(folder.absolute()), self.run))
        if metadata:
            provenance.store_metadata(connection, self.run, metadata)
        return BankSnapshot(*snapshot)

    @staticmethod
    def open_reader(path: BankLocation) -> BankReader:
        """Open any bank outside a run, for reading only: list, search, value history, export."""
        return BankReader(parse_location(path))

    @property
    def revoked_attempts(self) -> frozenset[str]:
        """Ids of this run's revoked attempts."""
        traces = (split_trace_id(id) for id in self._revoked_ids if not is_note_id(id))
        return frozenset(attempt for run, attempt in traces if run == self.run)

    @property
    def revoked_candidates(self) -> frozenset[str]:
        """Ids of candidates that were revoked in any run."""
        return frozenset(id.removeprefix(CANDIDATE_PREFIX) for id in self._revoked_ids if id.startswith(CANDIDATE_PREFIX))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        if self._view_connection:
            self._view_connection.close()

    def freeze(self) -> BankView:
        """The bank as it is now, for readers on other threads. Attempts that begin in the same state share one view."""
        if self._view is None:
            self._view = BankView(self._copy_for_reading(), self._view_lock)
        return self._view

    def _copy_for_reading(self) -> Bank:
        """A copy that changes of this bank do not reach."""
        if self._remote_index and self._view_connection is None:
            self._view_connection = open_or_create(self.path)
            self._view_remote_index = self._remote_index.on_connection(self._view_connection)
        other = Bank(self.path, self._view_connection or self._connection, self._embedder, self.backend, self.run)
        other._index = self._index.copy() if self._index else None
        other._items, other._rows, other._values = list(self._items), dict(self._rows), dict(self._values)
        other._remote_items, other._loaded_value_ids = dict(self._remote_items), set(self._loaded_value_ids)
        other._remote_index = self._view_remote_index
        return other

    def __enter__(self) -> Bank:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, items: Iterable[MemoryItem]) -> None:
        """Store items. An item that the bank already has is replaced only if its content changed, as when a card was edited."""
        new_items = [
            item for item in items if not self._revoked_ids & {item.id, CANDIDATE_PREFIX + item.candidate} and not self._is_unchanged(item)
        ]
        if not new_items:
            return
        vectors = self._embed([embedding_text(item) for item in new_items])

        def store_items() -> None:
            for item, vector in zip(new_items, vectors, strict=True):
                store_item(self._connection, "" if item.task is None else self.run, item, vector)

        with translate_db_errors(self.path):
            self._connection.run_in_transaction(store_items)
        self._view = None
        for item, vector in zip(new_items, vectors, strict=True):
            self._add_to_view(item, vector)

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """The items with these ids, in this order; ids without an item are skipped."""
        if self._remote_index and (new := [id for id in dict.fromkeys(ids) if id not in self._rows and id not in self._remote_items]):
            with translate_db_errors(self.path):
                self._remote_items.update({item.id: item for item in self._remote_index.get(new) if not is_hidden(item)})
        items = (self._items[self._rows[id]] if id in self._rows else self._remote_items.get(id) for id in ids)
        return [item for item in items if item]

    def search(
        self,
        query: str,
        k: int,
        kinds: Sequence[MemoryKind] = (),
        *,
        task: str | None = None,
        bottleneck: str | None = None,
        feasible: bool | None = None,
    ) -> list[SearchHit]:
        """The k items of this run's backend with the highest cosine similarity, highest first, older items first among equals."""
        if k <= 0:
            return []
        vector = self._embed([query])[0]
        rows = self._index.search(vector, k, kinds, task, bottleneck, feasible) if self._index else []
        own_hits = [SearchHit(self._items[row], similarity) for row, similarity in rows]
        if self._remote_index is None or (kinds and not set(kinds) & set(LEARNED_KINDS)):
            return own_hits
        search_filter, limit = SearchFilter(kinds, task, bottleneck, feasible), k
        while True:
            with translate_db_errors(self.path):
                remote_hits = self._remote_index.search(vector, limit, search_filter)
            old_hits = [SearchHit(hit.item, hit.similarity) for hit in remote_hits if not is_hidden(hit.item)][:k]
            if len(old_hits) == k or len(remote_hits) < limit:
                break
            limit *= 2  # some hits were hidden
        self._remote_items.update({hit.item.id: hit.item for hit in old_hits})
        return merge_hits(old_hits, own_hits, k)

    def values(self, ids: Sequence[str], stage: Stage, scope: str = "") -> dict[str, ItemValue]:
        """The value Q of each item; `ItemValue()` for items without updates."""
        default = ItemValue()
        self._load_remote_values(ids)
        return {id: self._values.get((id, stage.value, scope), default) for id in ids}

    def scoped_values(self, id: str, stage: Stage) -> dict[str, ItemValue]:
        """The values of one item in every scope, in order of the scopes."""
        self._load_remote_values([id])
        own = {key[2]: value for key, value in self._values.items() if key[:2] == (id, stage.value)}
        return dict(sorted(own.items()))

    def update(self, attempt: str, stage: Stage, rewards: Mapping[str, float], alpha: float, scope: str = "") -> None:
        """Apply Eq. 4 to each item and write a ledger row for each. A second call for the same attempt does nothing."""
        if not 0 < alpha <= 1 or not all(isfinite(reward) for reward in rewards.values()):
            raise ValueError(f"alpha = {alpha}, rewards = {dict(rewards)}: Q stays bounded only for 0 < alpha <= 1 and finite rewards")
        keys = {item: (item, stage.value, scope) for item in rewards if (attempt, (item, stage.value, scope)) not in self._applied_updates}
        if not keys or make_trace_id(self.run, attempt) in self._revoked_ids:
            return
        self._load_remote_values(list(keys))
        updates = [ledger.ValueUpdate(self.run, attempt, *key, rewards[item], alpha) for item, key in keys.items()]
        with translate_db_errors(self.path):
            self._connection.run_in_transaction(lambda: ledger.write_updates(self._connection, updates))
        self._view = None
        for item, key in keys.items():
            self._applied_updates.add((attempt, key))
            self._values[key] = ledger.apply_update(self._values.get(key, ItemValue()), rewards[item], alpha)

    def _load_remote_values(self, ids: Sequence[str]) -> None:
        """Load the values of these items from the server, if the bank is too large to load all values at once."""
        if self._remote_index and (new := [id for id in ids if id not in self._loaded_value_ids]):
            with translate_db_errors(self.path):
                self._values |= self._remote_index.values(new)
            self._loaded_value_ids.update(new)

    def _is_unchanged(self, item: MemoryItem) -> bool:
        row = self._rows.get(item.id)
        return row is not None and self._items[row] == item

    def _load_snapshot(self, snapshot: BankSnapshot) -> None:
        """Load the items and values of the snapshot into memory, or only cards if the server has a remote index."""
        self._index, self._items, self._rows = None, [], {}
        with read_transaction(self._connection):
            self._revoked_ids = {row[0] for row in self._connection.execute("SELECT id FROM revoked_ids")}
            self._applied_updates = ledger.load_revoked_updates(self._connection, self.run)
            self._remote_index = self._open_remote_index(snapshot)
            self._values = {} if self._remote_index else ledger.load_values_at(self._connection, snapshot)
            condition = f"backend = ? AND {snapshot.visibility_condition}" + (" AND task IS NULL" if self._remote_index else "")
            rows = self._connection.execute(
                f"SELECT record, vector FROM items JOIN vectors USING (seq) WHERE {condition} ORDER BY seq", (self.backend,)
            )
            for record, vector in rows:
                self._add_to_view(parse_item(self.path, record), np.frombuffer(vector, "<i2"))

    def _open_remote_index(self, snapshot: BankSnapshot) -> RemoteIndex | None:
        """The view of a bank that is searched on its server; None if this process loads the items."""
        mode = self._connection.choose_search_mode(self.backend, snapshot)
        if mode is SearchMode.IN_MEMORY:
            return None
        return RemoteIndex(self._connection, self.backend, snapshot, fits_in_memory=mode is SearchMode.SERVER_ITEMS)

    def _add_to_view(self, item: MemoryItem, vector: np.ndarray) -> None:
        """Add an item to what this run can find, or replace it there."""
        if item.backend != self.backend or is_hidden(item):
            return
        if self._index is None:
            self._index = ExactIndex(len(vector))
        old_row = self._rows.get(item.id)
        row = self._index.set_row(old_row, item, vector)
        if old_row is None:
            self._items.append(item)
        self._items[row], self._rows[item.id] = item, row

    def _embed(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Quantized vectors of the texts; recent texts come from a cache."""
        new = [text for text in dict.fromkeys(texts) if text not in self._embedding_cache]
        fresh = dict(zip(new, quantize_vectors(self._embedder.embed(new)), strict=True)) if new else {}
        self._embedding_cache.update(fresh)
        vectors = [self._embedding_cache[text] for text in texts]
        for text in texts:
            self._embedding_cache.move_to_end(text)
        while len(self._embedding_cache) > max(EMBEDDING_CACHE_SIZE, len(texts)):
            self._embedding_cache.popitem(last=False)
        if self._index is not None and vectors and len(vectors[0]) != self._index.dim:
            raise UserError(
                f"embedder '{self._embedder.id}' returns {len(vectors[0])} dimensions, the bank has {self._index.dim}: {other_bank_hint()}"
            )
        return vectors


def is_hidden(item: MemoryItem) -> bool:
    """Whether the item contains quarantined code, which is never shown."""
    return bool(item.code) and item.reason in QUARANTINED_REASONS


def merge_hits(old_hits: Sequence[SearchHit], own_hits: Sequence[SearchHit], k: int) -> list[SearchHit]:
    """The k most similar of two sorted lists; among equals, hits from before the run come first."""
    return sorted([*old_hits, *own_hits], key=lambda hit: -hit.similarity)[:k]
