"""The memory a run reads and writes: a file or a server that lasts, seen as it was when the run began plus what the run adds."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import ValidationError

from evokernel.core.bank_uri import BankLocation, parse_location
from evokernel.core.errors import UserError
from evokernel.core.protocols import Embedder, ItemValue, SearchHit
from evokernel.core.records import MemoryItem, MemoryKind, Stage
from evokernel.memory import ledger, provenance
from evokernel.memory.distill import QUARANTINED
from evokernel.memory.index import Index, grid
from evokernel.memory.remote_index import Asked, Far
from evokernel.memory.schema import connect, elsewhere, trouble
from evokernel.memory.tables import ASKED, Connection, Mark, asked, places, reading

if TYPE_CHECKING:
    from evokernel.memory.reader import Archive

log = logging.getLogger(__name__)
CANDIDATE = "candidate:"
LEARNED: tuple[MemoryKind, ...] = ("experience", "trace")
"""Kinds that a run adds; all others are cards."""
TEXTS = 1024  # embedded texts kept: a task's reference is the query of every round and the key of every attempt
COLUMNS = ("kind", "backend", "task", "family", "parent", "record", *ASKED)
PUT_ITEM = f"""INSERT INTO items (id, run, pack, {", ".join(COLUMNS)}) VALUES ({places(3 + len(COLUMNS))})
    ON CONFLICT (id) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in COLUMNS)}
    WHERE items.record <> excluded.record RETURNING seq"""


class Bank:
    """M with its values (a MemoryStore).

    What it answers depends on the bank as it was when this run id first opened it and on this process's own `add` and `update`, never
    on what other runs write meanwhile. Repeating an `add` or an `update` changes nothing in the file, so a resumed run may learn its
    journal again and sees what a straight run saw.
    """

    def __init__(self, path: BankLocation, connection: Connection, embedder: Embedder, backend: str, run: str) -> None:
        self.path, self.backend, self.run = path, backend, run
        self.resumed = False
        """Whether the bank knew this run id when it was opened."""
        self.begun = False
        """Whether the run had already left something in it."""
        self._connection, self._embedder = connection, embedder
        self._texts: OrderedDict[str, np.ndarray] = OrderedDict()
        self._index: Index | None = None
        self._items: list[MemoryItem] = []
        self._rows: dict[str, int] = {}
        self._values: dict[ledger.Key, ItemValue] = {}
        self._learned: set[tuple[str, ledger.Key]] = set()
        self._revoked: set[str] = set()
        self._far: Far | None = None
        self._met: dict[str, MemoryItem] = {}
        self._valued: set[str] = set()

    @classmethod
    def open(
        cls,
        path: BankLocation,
        embedder: Embedder,
        *,
        backend: str,
        run: str,
        folder: Path | None = None,
        facts: provenance.Facts | None = None,
    ) -> Bank:
        """For a run, new or resumed. `folder` is where it keeps its journal, for when something in that is revoked; `facts` are what
        packs say about where their items come from."""
        path = parse_location(path)
        connection = connect(path)
        with ExitStack() as held, trouble(path):
            held.callback(connection.close)
            bank = cls(path, connection, embedder, backend, run)
            mark = connection.written(lambda: bank._begin(folder, facts))
            connection.again(lambda: bank._load(mark))
            held.pop_all()
        return bank

    def _begin(self, folder: Path | None, facts: provenance.Facts | None) -> Mark:
        """Where the bank stood when this run first opened it, which is noted."""
        connection = self._connection
        claim(connection, self.path, self._embedder)
        mark = connection.execute("SELECT items, ledger, consolidations FROM runs WHERE id = ?", (self.run,)).fetchone()
        self.resumed = mark is not None
        self.begun = connection.execute("SELECT 1 FROM items WHERE run = ? LIMIT 1", (self.run,)).fetchone() is not None
        if not mark:
            newest = connection.execute("SELECT coalesce(max(seq), 0) FROM items").fetchone()[0]
            tidied = connection.execute("SELECT coalesce(max(number), 0) FROM consolidations").fetchone()[0]
            mark = (newest, ledger.head(connection), tidied)
            columns = "id, backend, items, ledger, consolidations"
            connection.execute(f"INSERT INTO runs ({columns}) VALUES (?, ?, ?, ?, ?)", (self.run, self.backend, *mark))
        if folder:
            connection.execute("UPDATE runs SET folder = ? WHERE id = ?", (str(folder.absolute()), self.run))
        if facts:
            provenance.keep(connection, self.run, facts)
        return Mark(*mark)

    @staticmethod
    def read(path: BankLocation) -> Archive:
        """Any bank, to look at: list, search, histories, export. Nothing is changed."""
        from evokernel.memory.reader import Archive

        return Archive(parse_location(path))

    @property
    def revoked(self) -> frozenset[str]:
        """Ids of this run's attempts that were revoked."""
        own = f"{self.run}:"
        return frozenset(id.removeprefix(own) for id in self._revoked if id.startswith(own) and not id.endswith("/note"))

    @property
    def refused(self) -> frozenset[str]:
        """Ids of candidates that were revoked, in whatever run."""
        return frozenset(id.removeprefix(CANDIDATE) for id in self._revoked if id.startswith(CANDIDATE))

    def close(self) -> None:
        """Ends the use of the file."""
        self._connection.close()

    def __enter__(self) -> Bank:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, items: Iterable[MemoryItem]) -> None:
        """Remembers items; one that is known is left as it is, unless its words changed (a card was edited)."""
        news = [item for item in items if not self._revoked & {item.id, CANDIDATE + item.candidate} and not self._holds(item)]
        if not news:
            return
        vectors = self._embed([what_is_embedded(item) for item in news])

        def write() -> None:
            for item, vector in zip(news, vectors, strict=True):
                put(self._connection, "" if item.task is None else self.run, item, vector)

        with trouble(self.path):
            self._connection.written(write)
        for item, vector in zip(news, vectors, strict=True):
            self._show(item, vector)

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """The items that exist, in the order asked for."""
        if self._far and (new := [id for id in dict.fromkeys(ids) if id not in self._rows and id not in self._met]):
            with trouble(self.path):
                self._met.update({item.id: item for item in self._far.get(new) if not is_hidden(item)})
        known = {id: self._items[self._rows[id]] if id in self._rows else self._met.get(id) for id in ids}
        return [found for id in ids if (found := known[id])]

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
        """The k nearest items of this run's backend by cosine, nearest first, ties by age."""
        if k <= 0:
            return []
        vector = self._embed([query])[0]
        hits = self._index.nearest(vector, k, kinds, task, bottleneck, feasible) if self._index else []
        own = [SearchHit(self._items[row], similarity) for row, similarity in hits]
        if self._far is None or (kinds and not set(kinds) & set(LEARNED)):
            return own
        asked, want = Asked(kinds, task, bottleneck, feasible), k
        while True:
            with trouble(self.path):
                hits_there = self._far.nearest(vector, want, asked)
            old = [SearchHit(hit.item, hit.similarity) for hit in hits_there if not is_hidden(hit.item)][:k]
            if len(old) == k or len(hits_there) < want:
                break
            want *= 2  # some were hidden
        self._met.update({hit.item.id: hit.item for hit in old})
        return joined(old, own, k)

    def values(self, ids: Sequence[str], stage: Stage, scope: str = "") -> dict[str, ItemValue]:
        """Q of each item; `Value()` for those never learned."""
        at, unknown = stage.value, ItemValue()
        self._fetch(ids)
        return {id: self._values.get((id, at, scope), unknown) for id in ids}

    def update(self, attempt: str, stage: Stage, rewards: Mapping[str, float], alpha: float, scope: str = "") -> None:
        """Eq. 4 for each item, with a ledger row each; a second call for the same attempt does nothing."""
        if not 0 < alpha <= 1 or not all(isfinite(reward) for reward in rewards.values()):
            raise ValueError(f"alpha = {alpha}, rewards = {dict(rewards)}: Q stays bounded only for 0 < alpha <= 1 and finite rewards")
        keys = {item: (item, stage.value, scope) for item in rewards if (attempt, (item, stage.value, scope)) not in self._learned}
        if not keys or f"{self.run}:{attempt}" in self._revoked:
            return
        self._fetch(list(keys))
        updates = [ledger.Update(self.run, attempt, *key, rewards[item], alpha) for item, key in keys.items()]
        with trouble(self.path):
            self._connection.written(lambda: ledger.write(self._connection, updates))
        for item, key in keys.items():
            self._learned.add((attempt, key))
            self._values[key] = ledger.learned(self._values.get(key, ItemValue()), rewards[item], alpha)

    def _fetch(self, ids: Sequence[str]) -> None:
        """Values of a bank that is not held are asked for when somebody wants them."""
        if self._far and (new := [id for id in ids if id not in self._valued]):
            with trouble(self.path):
                self._values |= self._far.values(new)
            self._valued.update(new)

    def _holds(self, item: MemoryItem) -> bool:
        row = self._rows.get(item.id)
        return row is not None and self._items[row] == item

    def _load(self, mark: Mark) -> None:
        """The view as of the mark."""
        self._index, self._items, self._rows = None, [], {}
        with reading(self._connection):
            self._revoked = {row[0] for row in self._connection.execute("SELECT id FROM revoked")}
            self._learned = ledger.withdrawn(self._connection, self.run)
            self._far = self._connection.far(self.backend, mark)
            self._values = {} if self._far else ledger.values_at(self._connection, mark.ledger, mark.consolidations)
            which = f"backend = ? AND {mark.seen}" + (" AND task IS NULL" if self._far else "")
            rows = self._connection.execute(
                f"SELECT record, vector FROM items JOIN vectors USING (seq) WHERE {which} ORDER BY seq", (self.backend,)
            )
            for record, vector in rows:
                self._show(parse(self.path, record), np.frombuffer(vector, "<i2"))

    def _show(self, item: MemoryItem, vector: np.ndarray) -> None:
        """Makes an item part of the view."""
        if item.backend != self.backend or is_hidden(item):
            return
        if self._index is None:
            self._index = Index(len(vector))
        known = self._rows.get(item.id)
        row = self._index.put(known, item, vector)
        if known is None:
            self._items.append(item)
        self._items[row], self._rows[item.id] = item, row

    def _embed(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Vectors on the grid; a text met lately is not embedded again."""
        new = [text for text in dict.fromkeys(texts) if text not in self._texts]
        fresh = dict(zip(new, grid(self._embedder.embed(new)), strict=True)) if new else {}
        self._texts.update(fresh)
        found = [self._texts[text] for text in texts]
        for text in texts:
            self._texts.move_to_end(text)
        while len(self._texts) > max(TEXTS, len(texts)):
            self._texts.popitem(last=False)
        if self._index is not None and found and len(found[0]) != self._index.dim:
            raise UserError(f"embedder '{self._embedder.id}' gives {len(found[0])} numbers, the bank has {self._index.dim}: {elsewhere()}")
        return found


def is_hidden(item: MemoryItem) -> bool:
    """Whether it holds code that is not to be shown."""
    return bool(item.code) and item.reason in QUARANTINED


def joined(old: Sequence[SearchHit], own: Sequence[SearchHit], k: int) -> list[SearchHit]:
    """The k nearest of both, which are in order; what was there before the run is older."""
    return sorted([*old, *own], key=lambda hit: -hit.similarity)[:k]


def what_is_embedded(item: MemoryItem) -> str:
    """The text an item is found by."""
    return item.key or f"{item.title}\n{item.text}\n{item.code}"


def put(connection: Connection, run: str, item: MemoryItem, vector: np.ndarray, pack: str = "") -> bool:
    """Stores an item inside the caller's transaction; False when the bank already holds it word for word."""
    row = (item.kind, item.backend, item.task, item.family, item.parent, item.model_dump_json(), *asked(item))
    changed = connection.execute(PUT_ITEM, (item.id, run, pack, *row)).fetchone()
    if changed:
        connection.put_vector(changed[0], item.backend, vector.tobytes())
    return changed is not None


def claim(connection: Connection, path: BankLocation, embedder: Embedder) -> None:
    """Vectors of different embedders are never mixed: the first one to write decides. What an earlier form of the same one made is made
    again. Inside the caller's transaction."""
    connection.execute("INSERT INTO meta VALUES ('embedder', ?) ON CONFLICT DO NOTHING", (embedder.id,))
    found = connection.execute("SELECT value FROM meta WHERE name = 'embedder'").fetchone()[0]
    if takes_over(embedder, found):
        log.warning("memory bank %s was made with embedder '%s': its items are embedded again by '%s'", path, found, embedder.id)
        embed_again(connection, path, embedder)
    elif found != embedder.id:
        raise UserError(f"memory bank {path} was made with embedder '{found}', not '{embedder.id}': use that one, or --memory OTHER")


def takes_over(embedder: Embedder, made_with: str) -> bool:
    """Whether a bank was made with an earlier form of an embedder."""
    return made_with in getattr(embedder, "earlier", ())


def embed_again(connection: Connection, path: BankLocation, embedder: Embedder) -> None:
    """Every vector of a bank, of what was put aside or revoked, too; a part at a time, as banks may be larger than memory."""
    connection.forget_vectors()
    last = 0
    while rows := connection.execute(
        f"SELECT seq, backend, record FROM items WHERE seq > ? ORDER BY seq LIMIT {TEXTS}", (last,)
    ).fetchall():
        texts = [what_is_embedded(parse(path, record)) for _, _, record in rows]
        vectors = dict(zip(dict.fromkeys(texts), grid(embedder.embed(list(dict.fromkeys(texts)))), strict=True))
        for (seq, backend, _), text in zip(rows, texts, strict=True):
            connection.put_vector(seq, backend, vectors[text].tobytes())
        last = rows[-1][0]
    connection.execute("UPDATE meta SET value = ? WHERE name = 'embedder'", (embedder.id,))


def parse(path: BankLocation, record: str) -> MemoryItem:
    """An item as a bank holds it."""
    try:
        return MemoryItem.model_validate_json(record)
    except ValidationError as error:
        raise UserError(f"memory bank {path} holds a record that cannot be read: {elsewhere()}") from error
