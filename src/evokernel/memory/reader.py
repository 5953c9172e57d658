"""A bank to look at, outside any run: what it holds, what items are worth and how they came to it. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np

from evokernel.core.bank_uri import BankLocation
from evokernel.core.errors import UserError
from evokernel.core.protocols import Embedder, SearchHit
from evokernel.core.records import MemoryItem, MemoryKind, Record
from evokernel.memory.bank import parse, takes_over, what_is_embedded
from evokernel.memory.distill import QUARANTINED
from evokernel.memory.index import Index, grid
from evokernel.memory.ledger import LIVE_UPDATES, Step, Update, survivors
from evokernel.memory.schema import connect_to_read, trouble
from evokernel.memory.tables import places, version_of


class Entry(NamedTuple):
    """An item with what the file knows about it besides."""

    item: MemoryItem
    run: str
    """The run that wrote it; empty for seed knowledge."""
    revoked: bool
    pack: str = ""
    """Hash of the pack it came with; empty for what was learned here."""
    archived: bool = False
    """Whether a consolidation put it aside."""

    @property
    def quarantined(self) -> bool:
        """Whether it is what is left of a kernel whose code is not shown."""
        return self.item.kind == "experience" and self.item.task is not None and (self.revoked or self.item.reason in QUARANTINED)


class Standing(NamedTuple):
    """What an item is worth at a stage."""

    item: str
    stage: str
    scope: str
    q: float
    visits: int


class Stats(Record):
    """A bank in figures."""

    path: str
    size_bytes: int
    embedder: str
    items: int
    archived: int
    """Put aside by consolidation."""
    revoked: int
    quarantined: int
    """Attempts whose code is not shown to anyone: refused for what they tried, or revoked."""
    runs: int
    updates: int
    """Rows of the ledger that count."""
    kinds: dict[str, int]
    backends: dict[str, int]
    tasks: int
    feasible: int
    """Traces of correct kernels."""
    packs: dict[str, int]
    """Taken in, by hash, with the items that are of each."""


class Archive:
    """Reads a bank, also while runs write to it."""

    def __init__(self, path: BankLocation) -> None:
        self.path = path
        self._connection = connect_to_read(path)
        with trouble(path):
            self._version = version_of(self._connection)
        self._correct = "feasible" if self._version >= 4 else "json_extract(record, '$.feasible')"
        pack, archived = "pack" if self._version >= 3 else "''", "archived" if self._version >= 5 else "0"
        self._live = f"revoked = 0 AND {archived} = 0"
        self._columns, self._archived = f"record, run, revoked, {pack}, {archived}", archived

    def close(self) -> None:
        """Ends the use of the file."""
        self._connection.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def entries(
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
    ) -> Iterator[Entry]:
        """Items that match every filter given, oldest first; `text` is words that must all occur, whatever their case. `archived` None
        means those that were put aside, too."""
        given = {"kind": kind, "backend": backend, "task": task, "family": family, "run": run}
        where = " AND ".join(["revoked <= ?", *(f"{name} = ?" for name, value in given.items() if value)])
        if archived is not None:
            where += f" AND {self._archived} {'>' if archived else '='} 0"
        words = text.lower().split()
        with trouble(self.path):
            rows = self._connection.execute(
                f"SELECT {self._columns} FROM items WHERE {where} ORDER BY seq", (int(revoked), *filter(None, given.values()))
            )
            for record, by, gone, pack, aside in rows:
                item = parse(self.path, record)
                said = f"{item.id}\n{item.title}\n{item.text}\n{item.code}".lower()
                if all(word in said for word in words):
                    yield Entry(item, by, bool(gone), pack, aside > 0)

    def get(self, id: str) -> Entry:
        """One item, or a line that says which ids are near."""
        with trouble(self.path):
            row = self._connection.execute(f"SELECT {self._columns} FROM items WHERE id = ?", (id,)).fetchone()
            if row:
                return self._entry(*row)
            known = [found[0] for found in self._connection.execute("SELECT id FROM items")]
        near = get_close_matches(id, known, 3)
        hint = f"did you mean {' or '.join(near)}?" if near else "'evokernel memory list' shows what is there"
        raise UserError(f"memory bank {self.path} has no item '{id}': {hint}")

    def search(
        self, query: str, embedder: Embedder, k: int = 10, *, kinds: Sequence[MemoryKind] = (), backend: str = ""
    ) -> list[SearchHit]:
        """The items nearest in meaning, by the embedder the bank was made with; where that was an earlier form of it, they are embedded
        again, for this search alone."""
        made_with = self.meta("embedder")
        is_earlier = takes_over(embedder, made_with)
        if made_with != embedder.id and not is_earlier:
            raise UserError(f"memory bank {self.path} was made with embedder '{made_with}', not '{embedder.id}': use that one")
        items: list[MemoryItem] = []
        vectors: list[np.ndarray] = []
        with trouble(self.path):
            rows = self._connection.execute(
                f"SELECT record, vector FROM items JOIN vectors USING (seq) WHERE {self._live} AND ? IN ('', backend) ORDER BY seq",
                (backend,),
            )
            for record, blob in rows:
                items.append(parse(self.path, record))
                vectors.append(np.frombuffer(blob, "<i2"))
        if is_earlier:
            vectors = list(grid(embedder.embed([what_is_embedded(item) for item in items])))
        asked = grid(embedder.embed([query]))[0]
        index = Index(len(asked))
        for item, vector in zip(items, vectors, strict=True):
            index.put(None, item, vector)
        hits = index.nearest(asked, k, kinds, None, None, None)
        return [SearchHit(items[row], similarity) for row, similarity in hits]

    def standings(self, id: str = "", *, stage: str = "", scope: str | None = "", limit: int = -1) -> list[Standing]:
        """Values, the highest first: of one item or of all, at one stage or all; `scope` None means every scope."""
        filters = [(name, value) for name, value in (("item", id or None), ("stage", stage or None), ("scope", scope)) if value is not None]
        where = " AND ".join(["true", *(f"{name} = ?" for name, _ in filters)])
        most = f" LIMIT {limit}" if limit >= 0 else ""
        with trouble(self.path):
            rows = self._connection.execute(
                f"SELECT item, stage, scope, q, visits FROM q WHERE {where} ORDER BY q DESC, visits DESC, item{most}",
                tuple(value for _, value in filters),
            )
            return [Standing(*row) for row in rows]

    def merged(self, id: str) -> list[str]:
        """Items that were merged into this one."""
        with trouble(self.path):
            return [item for item, root in survivors(self._connection).items() if root == id]

    def history(self, id: str) -> list[Step]:
        """How an item came to its values: every update, oldest first, with those of what was merged into it."""
        names = [id, *self.merged(id)]
        with trouble(self.path):
            rows = self._connection.execute(
                f"""SELECT run, attempt, stage, scope, reward, alpha, q_before, q_after, revoked FROM ledger
                WHERE item IN ({places(len(names))}) ORDER BY seq""",
                names,
            )
            return [Step(*row)._replace(revoked=bool(row[-1])) for row in rows]

    def count(self) -> int:
        """Items that a new run may be shown."""
        with trouble(self.path):
            return self._count(f"items WHERE {self._live}")

    def stats(self) -> Stats:
        """The bank in figures."""
        with trouble(self.path):
            return Stats(
                path=str(self.path),
                size_bytes=self._connection.size_bytes(),
                embedder=self.meta("embedder"),
                items=self.count(),
                archived=self._count(f"items WHERE revoked = 0 AND {self._archived} > 0"),
                revoked=self._count("items WHERE revoked = 1"),
                quarantined=sum(entry.quarantined for entry in self.entries(kind="experience", revoked=True)),
                runs=self._count("runs"),
                updates=self._count("ledger WHERE revoked = 0"),
                kinds=self._tally("kind"),
                backends=self._tally("backend"),
                tasks=int(self._connection.execute(f"SELECT count(DISTINCT task) FROM items WHERE {self._live}").fetchone()[0]),
                feasible=self._count(f"items WHERE {self._live} AND kind = 'trace' AND {self._correct} = 1"),
                packs=self.packs(),
            )

    def packs(self) -> dict[str, int]:
        """Packs that were taken in, by hash, with the items that are of each."""
        if self._version < 3:
            return {}
        count = "(SELECT count(*) FROM items WHERE pack = sha256 AND revoked = 0)"
        with trouble(self.path):
            return dict(self._connection.execute(f"SELECT sha256, {count} FROM packs ORDER BY sha256").fetchall())

    def updates(self) -> list[Update]:
        """Every row of the ledger that counts, oldest first."""
        with trouble(self.path):
            return list(map(Update._make, self._connection.execute(LIVE_UPDATES)))

    def meta(self, name: str) -> str:
        """A fact about the whole bank, such as `embedder`; empty when nobody wrote it yet."""
        with trouble(self.path):
            row = self._connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return row[0] if row else ""

    def _entry(self, record: str, run: str, revoked: int, pack: str, archived: int) -> Entry:
        return Entry(parse(self.path, record), run, bool(revoked), pack, archived > 0)

    def _count(self, what: str) -> int:
        return int(self._connection.execute(f"SELECT count(*) FROM {what}").fetchone()[0])

    def _tally(self, column: str) -> dict[str, int]:
        return dict(self._connection.execute(f"SELECT {column}, count(*) FROM items WHERE {self._live} GROUP BY 1 ORDER BY 1").fetchall())
