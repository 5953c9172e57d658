"""The tables of a memory bank, defined once for SQLite files and PostgreSQL servers, and the connection protocol that both implement."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeVar

from evokernel.core.bank_uri import BankLocation
from evokernel.core.errors import UserError
from evokernel.core.records import MemoryItem

VERSION = 6
"""The schema version; `meta` stores the version that a bank was written with."""
T = TypeVar("T")
SqlParameters = Sequence[Any] | Mapping[str, Any]


class BankSnapshot(NamedTuple):
    """The state of a bank at one moment: the numbers of its newest item, ledger row and consolidation."""

    last_item: int
    last_update: int
    last_consolidation: int

    @property
    def visibility_condition(self) -> str:
        """SQL condition for the items that the snapshot contains. Items archived after it are included, revoked items never are."""
        return f"seq <= {self.last_item} AND revoked = 0 AND (archived_by = 0 OR archived_by > {self.last_consolidation})"


class SearchMode(Enum):
    """Where a run searches the items of a bank."""

    IN_MEMORY = 1
    """This process loads all items."""
    SERVER_ITEMS = 2
    """The server holds the items; this process loads all embeddings."""
    SERVER_INDEX = 3
    """The server holds the items and finds near embeddings with its index."""


class Rollback(Exception):
    """Raised inside a transaction to leave it without any change to the bank."""


class QueryResult(Protocol):
    """The rows that a statement returns."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """An open bank. Statements use the SQL that SQLite and PostgreSQL share, with `?` or `:name` for parameters."""

    @property
    def sql_dialect(self) -> Mapping[str, str]:
        """The SQL words that differ between the databases: the types `row_number`, `text`, `real` and `blob`, the table option
        `without_rowid`, the expression `searchable_text` of a record, and the case-insensitive operator `like`."""

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, statement: str, values: SqlParameters = (), /) -> QueryResult: ...

    def executemany(self, statement: str, rows: Iterable[SqlParameters], /) -> object: ...

    def begin_write(self) -> None:
        """Begin a transaction that excludes other writers, so that rows are committed in the order of their numbers."""

    def begin_read(self) -> None:
        """Begin a transaction that sees the bank as it is now, whatever other processes write meanwhile."""

    def run_in_transaction(self, action: Callable[[], T]) -> T:
        """Run the action in one write transaction. If a server connection is lost, the action runs again: it must be idempotent."""

    def run_with_retries(self, action: Callable[[], T]) -> T:
        """Run an action that only reads. If a server connection is lost, the action runs again after reconnecting."""

    def table_names(self) -> set[str]: ...

    def change_token(self) -> str:
        """A string that changes whenever any process writes to the bank."""

    def store_vector(self, seq: int, backend: str, vector: bytes) -> None:
        """Store the embedding vector of the item with this number."""

    def delete_vectors(self) -> None:
        """Delete the vectors of all items."""

    def choose_search_mode(self, backend: str, snapshot: BankSnapshot) -> SearchMode:
        """Where to search the snapshot: a snapshot that is too large to load into memory is searched on the server."""

    def size_bytes(self) -> int: ...

    def close(self) -> None: ...


INDEXED_FIELDS = ("candidate", "code_sha256", "feasible", "latency_us", "bottleneck")
"""Item fields that statements filter by and that therefore have columns; all other fields stay inside the JSON record."""
TABLES = (
    "CREATE TABLE meta (name {text} PRIMARY KEY, value {text} NOT NULL) {without_rowid}",
    # archived_by: the number of the consolidation that archived the item, 0 for an active item.
    """CREATE TABLE items (seq {row_number}, id {text} NOT NULL UNIQUE, run {text} NOT NULL, kind {text} NOT NULL,
       backend {text} NOT NULL, task {text}, family {text} NOT NULL, parent {text} NOT NULL, record {text} NOT NULL,
       revoked INTEGER NOT NULL DEFAULT 0, pack {text} NOT NULL DEFAULT '', candidate {text} NOT NULL DEFAULT '',
       code_sha256 {text} NOT NULL DEFAULT '', feasible INTEGER, latency_us {real}, bottleneck {text} NOT NULL DEFAULT '',
       archived_by INTEGER NOT NULL DEFAULT 0)""",
    "CREATE INDEX items_by_backend ON items (backend, seq)",
    "CREATE INDEX items_by_task ON items (backend, task, seq)",
    "CREATE INDEX items_by_parent ON items (parent)",
    "CREATE INDEX items_by_candidate ON items (candidate)",
    "CREATE INDEX items_by_code ON items (code_sha256)",
    # Values have their own table because they change with every attempt, while records almost never change.
    """CREATE TABLE item_values (item {text} NOT NULL, stage {text} NOT NULL, scope {text} NOT NULL, q {real} NOT NULL,
       visits INTEGER NOT NULL, PRIMARY KEY (item, stage, scope)) {without_rowid}""",
    """CREATE TABLE ledger (seq {row_number}, run {text} NOT NULL, attempt {text} NOT NULL, item {text} NOT NULL,
       stage {text} NOT NULL, scope {text} NOT NULL, reward {real} NOT NULL, alpha {real} NOT NULL, q_before {real} NOT NULL,
       q_after {real} NOT NULL, revoked INTEGER NOT NULL DEFAULT 0, UNIQUE (run, attempt, item, stage, scope))""",
    "CREATE INDEX ledger_by_item ON ledger (item, stage, scope, seq)",
    # The snapshot that a run took when it first opened the bank. The run always sees this snapshot plus its own additions.
    """CREATE TABLE runs (id {text} PRIMARY KEY, backend {text} NOT NULL, last_item BIGINT NOT NULL, last_update BIGINT NOT NULL,
       folder {text} NOT NULL DEFAULT '', last_consolidation INTEGER NOT NULL DEFAULT 0) {without_rowid}""",
    # Ids of revoked items and attempts, and `candidate:<id>` for code that the bank rejects in every run.
    "CREATE TABLE revoked_ids (id {text} PRIMARY KEY) {without_rowid}",
    # Metadata of every run that wrote items, also of runs whose items came with a pack: these have no row in `runs`.
    "CREATE TABLE provenance (run {text} PRIMARY KEY, metadata {text} NOT NULL) {without_rowid}",
    "CREATE TABLE packs (sha256 {text} PRIMARY KEY, header {text} NOT NULL) {without_rowid}",
    # For every merged item: the item that its updates count for, and the consolidation that merged them.
    "CREATE TABLE merged_items (item {text} PRIMARY KEY, survivor {text} NOT NULL, consolidation INTEGER NOT NULL) {without_rowid}",
    "CREATE TABLE consolidations (number INTEGER PRIMARY KEY, report {text} NOT NULL) {without_rowid}",
)


def indexed_fields(item: MemoryItem) -> tuple[str, str, int | None, float | None, str]:
    """The column values of an item in the order of `INDEXED_FIELDS`; code is stored as its hash."""
    feasible = None if item.feasible is None else int(item.feasible)
    return item.candidate, hash_code(item.code), feasible, item.latency_us, item.bottleneck


def hash_code(code: str) -> str:
    """SHA-256 of a kernel's code, by which equal code is found; empty for empty code."""
    return hashlib.sha256(code.encode(errors="surrogatepass")).hexdigest() if code else ""


def create_tables(connection: Connection, extra_tables: Iterable[str] = ()) -> None:
    """Create the tables of an empty bank, with the `extra_tables` of this kind of database; the caller holds a transaction."""
    if connection.table_names():
        return
    for statement in (*TABLES, *extra_tables):
        connection.execute(statement.format_map(connection.sql_dialect))
    connection.execute("INSERT INTO meta VALUES ('schema', ?)", (str(VERSION),))


def read_schema_version(connection: Connection) -> int:
    """The schema version that the bank was written with; 0 if it has none."""
    row = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    return int(row[0]) if row else 0


def check_schema_version(location: BankLocation, version: int) -> None:
    """Raise UserError unless this evokernel can use a bank with this schema version."""
    if version > VERSION:
        raise UserError(
            f"memory bank {location} was written by a newer evokernel (schema {version}, this one supports {VERSION}): update evokernel"
        )
    if version < VERSION:
        raise UserError(
            f"memory bank {location} was written by an older evokernel (schema {version}, this one supports {VERSION}, which renamed "
            "tables and columns): use the evokernel that wrote it, or start a new bank with --memory OTHER"
        )


@contextmanager
def write_transaction(connection: Connection) -> Iterator[None]:
    """A write transaction: commits at the end, rolls back on an exception."""
    try:
        connection.begin_write()
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@contextmanager
def read_transaction(connection: Connection) -> Iterator[None]:
    """A read transaction: all statements in it see the bank at one moment."""
    try:
        connection.begin_read()
        yield
    finally:
        if connection.in_transaction:
            connection.execute("COMMIT")


def placeholders(count: int) -> str:
    """SQL placeholders for `count` parameters: `?, ?, ?`."""
    return ", ".join("?" * count)
