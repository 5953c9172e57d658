"""A bank's tables, written once for files and servers; what differs between the two is a word here and there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from pydantic import ValidationError

from evokernel.core.records import MemoryItem

if TYPE_CHECKING:
    from evokernel.memory.remote_index import Far

VERSION = 5
T = TypeVar("T")
Values = Sequence[Any] | Mapping[str, Any]


class Mark(NamedTuple):
    """Where a bank stood: its newest item, its newest row of the ledger, its latest consolidation."""

    items: int
    ledger: int
    consolidations: int

    @property
    def seen(self) -> str:
        """As a statement says which items were there: what was put aside later was still there, what is revoked never was."""
        return f"seq <= {self.items} AND revoked = 0 AND (archived = 0 OR archived > {self.consolidations})"


class Rows(Protocol):
    """What a statement gives."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A bank, opened. Statements are in the SQL that both SQLite and PostgreSQL know, with `?` or `:name` for values."""

    @property
    def words(self) -> Mapping[str, str]:
        """What types are called here: `number` of rows that the bank counts, `text`, `real`, `blob`; `flat` for tables of keys; and how
        texts in a record are found, whatever their case: `texts` and `like`."""

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, statement: str, values: Values = (), /) -> Rows: ...

    def executemany(self, statement: str, rows: Iterable[Values], /) -> object: ...

    def begin(self) -> None:
        """Begins a transaction that no other writer's comes between: what is numbered later is committed later."""

    def begin_reading(self) -> None:
        """Begins to look at the bank as it is at this moment, whoever writes meanwhile."""

    def written(self, action: Callable[[], T]) -> T:
        """Does it in a transaction, all or nothing; on a server that went away, again when it is back. It must be harmless twice."""

    def again(self, action: Callable[[], T]) -> T:
        """Does something that only reads; on a server that went away, again when it is back."""

    def tables(self) -> set[str]: ...

    def state(self) -> str:
        """Another one after anybody wrote to the bank."""

    def put_vector(self, seq: int, backend: str, vector: bytes) -> None:
        """What an item is found by."""

    def forget_vectors(self) -> None:
        """Of all items."""

    def far(self, backend: str, mark: Mark) -> Far | None:
        """For a bank that is too large to be held as it was at a mark; None for all others."""

    def size_bytes(self) -> int: ...

    def close(self) -> None: ...


# What is known of a run, which outlasts its folder; of runs that came with a pack, too, so apart from `runs`.
ORIGINS = "CREATE TABLE origins (run {text} PRIMARY KEY, facts {text} NOT NULL) {flat}"
PACKS = "CREATE TABLE packs (sha256 {text} PRIMARY KEY, header {text} NOT NULL) {flat}"
# What is asked of records by statements; everything else stays inside them.
ASKED = ("candidate", "code", "feasible", "latency_us", "bottleneck")
# What was put aside: by which tidying of the bank an item was, and which other item a merged one's updates count for.
MERGED = "CREATE TABLE merged (item {text} PRIMARY KEY, survivor {text} NOT NULL, at INTEGER NOT NULL) {flat}"
BY_TASK = "CREATE INDEX items_by_task ON items (backend, task, seq)"
CONSOLIDATIONS = "CREATE TABLE consolidations (number INTEGER PRIMARY KEY, report {text} NOT NULL) {flat}"
TABLES = (
    "CREATE TABLE meta (name {text} PRIMARY KEY, value {text} NOT NULL) {flat}",
    """CREATE TABLE items (seq {number}, id {text} NOT NULL UNIQUE, run {text} NOT NULL, kind {text} NOT NULL,
       backend {text} NOT NULL, task {text}, family {text} NOT NULL, parent {text} NOT NULL, record {text} NOT NULL,
       revoked INTEGER NOT NULL DEFAULT 0, pack {text} NOT NULL DEFAULT '', candidate {text} NOT NULL DEFAULT '',
       code {text} NOT NULL DEFAULT '', feasible INTEGER, latency_us {real}, bottleneck {text} NOT NULL DEFAULT '',
       archived INTEGER NOT NULL DEFAULT 0)""",
    "CREATE INDEX items_by_backend ON items (backend, seq)",
    BY_TASK,
    "CREATE INDEX items_by_parent ON items (parent)",
    "CREATE INDEX items_by_candidate ON items (candidate)",
    "CREATE INDEX items_by_code ON items (code)",
    # Q lives apart from the items: values change with every attempt, records almost never.
    """CREATE TABLE q (item {text} NOT NULL, stage {text} NOT NULL, scope {text} NOT NULL, q {real} NOT NULL, visits INTEGER NOT NULL,
       PRIMARY KEY (item, stage, scope)) {flat}""",
    """CREATE TABLE ledger (seq {number}, run {text} NOT NULL, attempt {text} NOT NULL, item {text} NOT NULL,
       stage {text} NOT NULL, scope {text} NOT NULL, reward {real} NOT NULL, alpha {real} NOT NULL, q_before {real} NOT NULL,
       q_after {real} NOT NULL, revoked INTEGER NOT NULL DEFAULT 0, UNIQUE (run, attempt, item, stage, scope))""",
    "CREATE INDEX ledger_by_item ON ledger (item, stage, scope, seq)",
    # Where the bank stood when a run first opened it: what the run sees for ever after, besides its own learning.
    """CREATE TABLE runs (id {text} PRIMARY KEY, backend {text} NOT NULL, items BIGINT NOT NULL, ledger BIGINT NOT NULL,
       folder {text} NOT NULL DEFAULT '', consolidations INTEGER NOT NULL DEFAULT 0) {flat}""",
    # Ids of items and attempts, and `candidate:<id>` for code that is refused wherever it turns up again.
    "CREATE TABLE revoked (id {text} PRIMARY KEY) {flat}",
    ORIGINS,
    PACKS,
    MERGED,
    CONSOLIDATIONS,
)


def fill_asked(connection: Connection) -> None:
    """Columns that older banks have only inside their records."""
    for id, record in connection.execute("SELECT id, record FROM items").fetchall():
        try:
            item = MemoryItem.model_validate_json(record)
        except ValidationError:
            continue  # said by whoever wants to read it
        connection.execute(f"UPDATE items SET {', '.join(f'{name} = ?' for name in ASKED)} WHERE id = ?", (*asked(item), id))


Step = str | Callable[[Connection], None]
STEPS: dict[int, tuple[Step, ...]] = {
    1: ("ALTER TABLE runs ADD COLUMN folder TEXT NOT NULL DEFAULT ''",),
    2: ("ALTER TABLE items ADD COLUMN pack TEXT NOT NULL DEFAULT ''", ORIGINS, PACKS),
    3: (
        *(f"ALTER TABLE items ADD COLUMN {name} {{text}} NOT NULL DEFAULT ''" for name in ("candidate", "code", "bottleneck")),
        "ALTER TABLE items ADD COLUMN feasible INTEGER",
        "ALTER TABLE items ADD COLUMN latency_us {real}",
        "CREATE INDEX items_by_candidate ON items (candidate)",
        "CREATE INDEX items_by_code ON items (code)",
        fill_asked,
    ),
    4: (
        "ALTER TABLE items ADD COLUMN archived INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE runs ADD COLUMN consolidations INTEGER NOT NULL DEFAULT 0",
        MERGED,
        CONSOLIDATIONS,
        BY_TASK,
    ),
}
"""What makes a bank of a version one of the next. Those on servers began with version 4."""


def asked(item: MemoryItem) -> tuple[str, str, int | None, float | None, str]:
    """Of an item, in the order of `ASKED`: code by its hash."""
    feasible = None if item.feasible is None else int(item.feasible)
    return item.candidate, hashed(item.code), feasible, item.latency_us, item.bottleneck


def hashed(code: str) -> str:
    """By what equal code is found; nothing for none."""
    return hashlib.sha256(code.encode(errors="surrogatepass")).hexdigest() if code else ""


def bring_up(connection: Connection, more: Iterable[str] = ()) -> None:
    """Makes the tables, with `more` of this kind of bank's own, or turns an older bank into one of today; inside a transaction."""
    if not connection.tables():
        for table in (*TABLES, *more):
            connection.execute(table.format_map(connection.words))
        connection.execute("INSERT INTO meta VALUES ('schema', ?)", (str(VERSION),))
    found = version_of(connection)
    for version in range(found, VERSION):
        for step in STEPS[version]:
            if callable(step):
                step(connection)
            else:
                connection.execute(step.format_map(connection.words))
    if found < VERSION:
        connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (str(VERSION),))


def version_of(connection: Connection) -> int:
    """Of the bank as it is: one that is only read is not brought up."""
    found = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    return int(found[0]) if found else 0


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """All or nothing."""
    try:
        connection.begin()
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@contextmanager
def reading(connection: Connection) -> Iterator[None]:
    """The bank as it is at one moment."""
    try:
        connection.begin_reading()
        yield
    finally:
        if connection.in_transaction:
            connection.execute("COMMIT")


def places(count: int) -> str:
    """Room for so many values in a statement."""
    return ", ".join("?" * count)
