"""The bank's file: its tables, how it is opened, and what goes wrong with it, in words that name the fix."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evokernel.core.errors import UserError

VERSION = 3
BUSY_TIMEOUT_S = 60.0
# What is known of a run, which outlasts its folder; of runs that came with a pack, too, so apart from `runs`.
ORIGINS = "CREATE TABLE origins (run TEXT PRIMARY KEY, facts TEXT NOT NULL) WITHOUT ROWID"
PACKS = "CREATE TABLE packs (sha256 TEXT PRIMARY KEY, header TEXT NOT NULL) WITHOUT ROWID"
TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE items (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, run TEXT NOT NULL, kind TEXT NOT NULL,
       backend TEXT NOT NULL, task TEXT, family TEXT NOT NULL, parent TEXT NOT NULL, record TEXT NOT NULL,
       revoked INTEGER NOT NULL DEFAULT 0, pack TEXT NOT NULL DEFAULT '')""",
    "CREATE INDEX items_by_backend ON items (backend, seq)",
    "CREATE INDEX items_by_parent ON items (parent)",
    "CREATE TABLE vectors (seq INTEGER PRIMARY KEY REFERENCES items (seq), vector BLOB NOT NULL)",
    # Q lives apart from the items: values change with every attempt, records almost never.
    """CREATE TABLE q (item TEXT NOT NULL, stage TEXT NOT NULL, scope TEXT NOT NULL, q REAL NOT NULL, visits INTEGER NOT NULL,
       PRIMARY KEY (item, stage, scope)) WITHOUT ROWID""",
    """CREATE TABLE ledger (seq INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, attempt TEXT NOT NULL, item TEXT NOT NULL,
       stage TEXT NOT NULL, scope TEXT NOT NULL, reward REAL NOT NULL, alpha REAL NOT NULL, q_before REAL NOT NULL,
       q_after REAL NOT NULL, revoked INTEGER NOT NULL DEFAULT 0, UNIQUE (run, attempt, item, stage, scope))""",
    "CREATE INDEX ledger_by_item ON ledger (item, stage, scope, seq)",
    # Where the bank stood when a run first opened it: what the run sees for ever after, besides its own learning.
    """CREATE TABLE runs (id TEXT PRIMARY KEY, backend TEXT NOT NULL, items INTEGER NOT NULL, ledger INTEGER NOT NULL,
       folder TEXT NOT NULL DEFAULT '') WITHOUT ROWID""",
    # Ids of items and attempts, and `candidate:<id>` for code that is refused wherever it turns up again.
    "CREATE TABLE revoked (id TEXT PRIMARY KEY) WITHOUT ROWID",
    ORIGINS,
    PACKS,
)
STEPS = {
    1: ("ALTER TABLE runs ADD COLUMN folder TEXT NOT NULL DEFAULT ''",),
    2: ("ALTER TABLE items ADD COLUMN pack TEXT NOT NULL DEFAULT ''", ORIGINS, PACKS),
}
"""What makes a bank of a version one of the next."""
DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
UNREACHABLE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}


@contextmanager
def trouble(path: Path) -> Iterator[None]:
    """Says in one line what is wrong with the bank at `path` and how to go on."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in DAMAGED:
            raise UserError(f"memory bank {path} is damaged ({error}): {elsewhere()}") from error
        if code in UNREACHABLE:
            raise UserError(f"memory bank {path} cannot be written ({error}): make its folder writable, or use --memory OTHER") from error
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise UserError(f"memory bank {path} cannot be written ({error}): free some space and resume, nothing is lost") from error
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise UserError(f"memory bank {path} is held by another process: wait for it, or use --memory OTHER") from error
        raise


def elsewhere() -> str:
    """The way out of a bank that cannot be used."""
    return "move it away, or use --memory OTHER"


def connect(path: Path) -> sqlite3.Connection:
    """The bank at `path` for reading and writing, made when there is none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder of memory bank {path}: {error.strerror}; use --memory OTHER") from error
    with trouble(path):
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            check(connection, path)
            with transaction(connection):
                if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                    for table in TABLES:
                        connection.execute(table)
                    connection.execute("INSERT INTO meta VALUES ('schema', ?)", (str(VERSION),))
                bring_up(connection)
        except (sqlite3.Error, UserError):
            connection.close()
            raise
        return connection


def bring_up(connection: sqlite3.Connection) -> None:
    """Turns an older bank into one of today, inside the caller's transaction."""
    found = version_of(connection)
    for version in range(found, VERSION):
        for statement in STEPS[version]:
            connection.execute(statement)
    if found < VERSION:
        connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (str(VERSION),))


def version_of(connection: sqlite3.Connection) -> int:
    """Of the bank as it is: one that is only read is not brought up."""
    return int(connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()[0])


def connect_to_read(path: Path) -> sqlite3.Connection:
    """An existing bank, never changed; works in a folder that cannot be written, too."""
    if not path.is_file():
        raise UserError(f"there is no memory bank at {path}: name one with --memory PATH, or make one with evokernel run")
    with trouble(path):
        for mode in ("mode=ro", "immutable=1"):
            connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", timeout=BUSY_TIMEOUT_S, isolation_level=None, uri=True)
            try:
                check(connection, path)
                return connection
            except (sqlite3.Error, UserError) as error:
                connection.close()
                # Without write access to the folder the WAL's shared memory cannot be made; then nobody writes, either.
                if mode == "immutable=1" or getattr(error, "sqlite_errorcode", 0) & 0xFF not in UNREACHABLE:
                    raise
    raise AssertionError("the last mode either returns or raises")


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Refuses what is not a whole bank of a version we know; an empty file is a bank about to be made."""
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if not tables:
        return
    if "meta" not in tables:
        raise UserError(f"{path} is a database, but not a memory bank: use --memory OTHER")
    found = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    version = int(found[0]) if found else 0
    if version > VERSION:
        raise UserError(f"memory bank {path} was made by a newer evokernel (schema {version}, this one knows {VERSION}): update it")
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if version < 1 or verdict != "ok":
        raise UserError(f"memory bank {path} is damaged ({' '.join(verdict.split())[:100]}): {elsewhere()}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing. IMMEDIATE, because a transaction that reads first and writes later is refused when another writer was quicker."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
