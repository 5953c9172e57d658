"""Read a memory bank outside a run: its items, their values and the history of these values. Nothing here changes the bank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import NamedTuple, Self

import numpy as np

from evokernel.core.bank_uri import BankLocation
from evokernel.core.errors import UserError
from evokernel.core.protocols import Embedder, SearchHit
from evokernel.core.records import MemoryItem, MemoryKind, Record
from evokernel.memory.distill import QUARANTINED_REASONS
from evokernel.memory.index import ExactIndex, quantize_vectors
from evokernel.memory.item_rows import embedding_text, is_earlier_version, parse_item
from evokernel.memory.ledger import ACTIVE_UPDATES, HistoryEntry, ValueUpdate, load_survivors
from evokernel.memory.schema import connect_read_only, translate_db_errors
from evokernel.memory.tables import placeholders

VISIBLE = "revoked = 0 AND archived_by = 0"
"""SQL condition for the items that a new run can be shown."""
ITEM_COLUMNS = "record, run, revoked, pack, archived_by"


class BankItem(NamedTuple):
    """An item with the facts that the bank stores about it."""

    item: MemoryItem
    run: str
    """The run that wrote it; empty for seed knowledge."""
    is_revoked: bool
    pack: str = ""
    """Hash of the pack that it came with; empty for items learned in this bank."""
    is_archived: bool = False
    """Whether a consolidation archived it."""

    @property
    def is_quarantined(self) -> bool:
        """Whether it is the note of a kernel whose code is not shown."""
        is_note = self.item.kind == "experience" and self.item.task is not None
        return is_note and (self.is_revoked or self.item.reason in QUARANTINED_REASONS)


class StageValue(NamedTuple):
    """The value of an item at a stage."""

    item: str
    stage: str
    scope: str
    q: float
    visits: int


class BankStats(Record):
    """Statistics of a bank."""

    path: str
    size_bytes: int
    embedder: str
    items: int
    archived: int
    """Items archived by consolidation."""
    revoked: int
    quarantined: int
    """Attempts whose code is never shown: failed for a quarantined reason, or revoked."""
    runs: int
    updates: int
    """Ledger rows that are not revoked."""
    kinds: dict[str, int]
    backends: dict[str, int]
    tasks: int
    feasible: int
    """Traces of correct kernels."""
    packs: dict[str, int]
    """Number of items of each imported pack, by its hash."""


class BankReader:
    """Reads a bank, also while runs write to it."""

    def __init__(self, path: BankLocation) -> None:
        self.path = path
        self._connection = connect_read_only(path)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find_items(
        self,
        *,
        kind: str = "",
        backend: str = "",
        task: str = "",
        family: str = "",
        run: str = "",
        text: str = "",
        revoked: bool = False,
        archived: bool | None = False,
    ) -> Iterator[BankItem]:
        """Items that match every filter, oldest first. All words of `text` must occur, in any case.

        `revoked` includes revoked items. `archived` selects active (False), archived (True) or all items (None).
        """
        columns = {"kind": kind, "backend": backend, "task": task, "family": family, "run": run}
        condition = " AND ".join(["revoked <= ?", *(f"{name} = ?" for name, value in columns.items() if value)])
        if archived is not None:
            condition += f" AND archived_by {'>' if archived else '='} 0"
        words = text.lower().split()
        with translate_db_errors(self.path):
            rows = self._connection.execute(
                f"SELECT {ITEM_COLUMNS} FROM items WHERE {condition} ORDER BY seq", (int(revoked), *filter(None, columns.values()))
            )
            for row in rows:
                bank_item = self._parse_row(*row)
                item = bank_item.item
                searchable_text = f"{item.id}\n{item.title}\n{item.text}\n{item.code}".lower()
                if all(word in searchable_text for word in words):
                    yield bank_item

    def find_item(self, id: str) -> BankItem | None:
        """One item, or None."""
        with translate_db_errors(self.path):
            row = self._connection.execute(f"SELECT {ITEM_COLUMNS} FROM items WHERE id = ?", (id,)).fetchone()
            return self._parse_row(*row) if row else None

    def get_item(self, id: str) -> BankItem:
        """One item; UserError with similar ids if there is none."""
        if item := self.find_item(id):
            return item
        with translate_db_errors(self.path):
            ids = [row[0] for row in self._connection.execute("SELECT id FROM items")]
        matches = get_close_matches(id, ids, 3)
        hint = f"did you mean {' or '.join(matches)}?" if matches else "list the items with evokernel memory list"
        raise UserError(f"memory bank {self.path} has no item '{id}': {hint}")

    def search(
        self, query: str, embedder: Embedder, k: int = 10, *, kinds: Sequence[MemoryKind] = (), backend: str = ""
    ) -> list[SearchHit]:
        """The k most similar items, by the embedder of the bank.

        If the bank was written with an earlier version of the embedder, the items are embedded again for this search.
        """
        bank_embedder = self.read_meta("embedder")
        is_earlier = is_earlier_version(embedder, bank_embedder)
        if bank_embedder != embedder.id and not is_earlier:
            raise UserError(f"memory bank {self.path} uses embedder '{bank_embedder}', not '{embedder.id}': choose that embedder")
        items: list[MemoryItem] = []
        vectors: list[np.ndarray] = []
        with translate_db_errors(self.path):
            rows = self._connection.execute(
                f"SELECT record, vector FROM items JOIN vectors USING (seq) WHERE {VISIBLE} AND ? IN ('', backend) ORDER BY seq",
                (backend,),
            )
            for record, blob in rows:
                items.append(parse_item(self.path, record))
                vectors.append(np.frombuffer(blob, "<i2"))
        if is_earlier:
            vectors = list(quantize_vectors(embedder.embed([embedding_text(item) for item in items])))
        query_vector = quantize_vectors(embedder.embed([query]))[0]
        index = ExactIndex(len(query_vector))
        for item, vector in zip(items, vectors, strict=True):
            index.set_row(None, item, vector)
        hits = index.search(query_vector, k, kinds, None, None, None)
        return [SearchHit(items[row], similarity) for row, similarity in hits]

    def list_values(self, id: str = "", *, stage: str = "", scope: str | None = "", limit: int = -1) -> list[StageValue]:
        """Values, highest first: of one item or all, at one stage or all; `scope` None means every scope."""
        filters = [(name, value) for name, value in (("item", id or None), ("stage", stage or None), ("scope", scope)) if value is not None]
        condition = " AND ".join(["true", *(f"{name} = ?" for name, _ in filters)])
        limit_clause = f" LIMIT {limit}" if limit >= 0 else ""
        with translate_db_errors(self.path):
            rows = self._connection.execute(
                f"""SELECT item, stage, scope, q, visits FROM item_values
                WHERE {condition} ORDER BY q DESC, visits DESC, item{limit_clause}""",
                tuple(value for _, value in filters),
            )
            return [StageValue(*row) for row in rows]

    def find_merged_items(self, id: str) -> list[str]:
        """Ids of the items that were merged into this one."""
        with translate_db_errors(self.path):
            return [item for item, survivor in load_survivors(self._connection).items() if survivor == id]

    def value_history(self, id: str) -> list[HistoryEntry]:
        """Every update of an item's values, oldest first, including updates of items merged into it."""
        ids = [id, *self.find_merged_items(id)]
        with translate_db_errors(self.path):
            rows = self._connection.execute(
                f"""SELECT run, attempt, stage, scope, reward, alpha, q_before, q_after, revoked FROM ledger
                WHERE item IN ({placeholders(len(ids))}) ORDER BY seq""",
                ids,
            )
            return [HistoryEntry(*row)._replace(revoked=bool(row[-1])) for row in rows]

    def count_items(self) -> int:
        """The number of items that a new run can be shown."""
        with translate_db_errors(self.path):
            return self._count_rows(f"items WHERE {VISIBLE}")

    def compute_stats(self) -> BankStats:
        """Statistics of the bank."""
        with translate_db_errors(self.path):
            return BankStats(
                path=str(self.path),
                size_bytes=self._connection.size_bytes(),
                embedder=self.read_meta("embedder"),
                items=self.count_items(),
                archived=self._count_rows("items WHERE revoked = 0 AND archived_by > 0"),
                revoked=self._count_rows("items WHERE revoked = 1"),
                quarantined=sum(item.is_quarantined for item in self.find_items(kind="experience", revoked=True)),
                runs=self._count_rows("runs"),
                updates=self._count_rows("ledger WHERE revoked = 0"),
                kinds=self._count_by("kind"),
                backends=self._count_by("backend"),
                tasks=int(self._connection.execute(f"SELECT count(DISTINCT task) FROM items WHERE {VISIBLE}").fetchone()[0]),
                feasible=self._count_rows(f"items WHERE {VISIBLE} AND kind = 'trace' AND feasible = 1"),
                packs=self.count_pack_items(),
            )

    def count_pack_items(self) -> dict[str, int]:
        """The number of items of each imported pack, by its hash."""
        count = "(SELECT count(*) FROM items WHERE pack = sha256 AND revoked = 0)"
        with translate_db_errors(self.path):
            return dict(self._connection.execute(f"SELECT sha256, {count} FROM packs ORDER BY sha256").fetchall())

    def list_updates(self) -> list[ValueUpdate]:
        """Every ledger row that is not revoked, oldest first."""
        with translate_db_errors(self.path):
            return list(map(ValueUpdate._make, self._connection.execute(ACTIVE_UPDATES)))

    def read_meta(self, name: str) -> str:
        """A property of the bank, such as `embedder`; empty if it is not set."""
        with translate_db_errors(self.path):
            row = self._connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return row[0] if row else ""

    def _parse_row(self, record: str, run: str, revoked: int, pack: str, archived_by: int) -> BankItem:
        return BankItem(parse_item(self.path, record), run, bool(revoked), pack, archived_by > 0)

    def _count_rows(self, rows: str) -> int:
        """The number of rows of a FROM clause."""
        return int(self._connection.execute(f"SELECT count(*) FROM {rows}").fetchone()[0])

    def _count_by(self, column: str) -> dict[str, int]:
        """The number of visible items for each value of a column."""
        rows = self._connection.execute(f"SELECT {column}, count(*) FROM items WHERE {VISIBLE} GROUP BY 1 ORDER BY 1")
        return dict(rows.fetchall())
