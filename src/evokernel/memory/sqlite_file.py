"""A bank in a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from evokernel.core.errors import UserError
from evokernel.memory.tables import VERSION, Mark, bring_up, transaction, version_of

BUSY_TIMEOUT_S = 60.0
VECTORS = "CREATE TABLE vectors (seq INTEGER PRIMARY KEY REFERENCES items (seq), vector BLOB NOT NULL)"
DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
UNREACHABLE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
T = TypeVar("T")


class File(sqlite3.Connection):
    """A bank (a Connection)."""

    words = {
        "number": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "text": "TEXT",
        "real": "REAL",
        "blob": "BLOB",
        "flat": "WITHOUT ROWID",
        "texts": "json_extract(record, '$.title', '$.text', '$.code')",
        "like": "LIKE",
    }
    path: Path

    def begin(self) -> None:
        """IMMEDIATE, because a transaction that reads first and writes later is refused when another writer was quicker."""
        self.execute("BEGIN IMMEDIATE")

    def begin_reading(self) -> None:
        self.execute("BEGIN")

    def written(self, action: Callable[[], T]) -> T:
        with transaction(self):
            return action()

    def again(self, action: Callable[[], T]) -> T:
        return action()

    def tables(self) -> set[str]:
        return {row[0] for row in self.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}

    def state(self) -> str:
        return str(self.execute("PRAGMA data_version").fetchone()[0])

    def put_vector(self, seq: int, backend: str, vector: bytes) -> None:
        self.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", (seq, vector))

    def forget_vectors(self) -> None:
        self.execute("DELETE FROM vectors")

    def far(self, backend: str, mark: Mark) -> None:
        """Never: a file is searched by whoever opened it."""

    def size_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.path.parent.glob(f"{self.path.name}*"))


@contextmanager
def trouble(path: Path) -> Iterator[None]:
    """Says in one line what is wrong with the file and how to go on."""
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


def opened(path: Path, target: Path | str, **more: bool) -> File:
    connection: File = sqlite3.connect(target, timeout=BUSY_TIMEOUT_S, isolation_level=None, factory=File, **more)
    connection.path = path
    return connection


def connect(path: Path) -> File:
    """For reading and writing, made when there is none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder of memory bank {path}: {error.strerror}; use --memory OTHER") from error
    with trouble(path):
        connection = opened(path, path)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            check(connection, path)
            with transaction(connection):
                bring_up(connection, (VECTORS,))
        except (sqlite3.Error, UserError):
            connection.close()
            raise
        return connection


def connect_to_read(path: Path) -> File:
    """An existing bank, never changed; works in a folder that cannot be written, too."""
    if not path.is_file():
        raise UserError(f"there is no memory bank at {path}: name one with --memory PATH, or make one with evokernel run")
    with trouble(path):
        for mode in ("mode=ro", "immutable=1"):
            connection = opened(path, f"{path.absolute().as_uri()}?{mode}", uri=True)
            try:
                check(connection, path)
                return connection
            except (sqlite3.Error, UserError) as error:
                connection.close()
                # Without write access to the folder the WAL's shared memory cannot be made; then nobody writes, either.
                if mode == "immutable=1" or getattr(error, "sqlite_errorcode", 0) & 0xFF not in UNREACHABLE:
                    raise
    raise AssertionError("the last mode either returns or raises")


def check(connection: File, path: Path) -> None:
    """Refuses what is not a whole bank of a version we know; an empty file is a bank about to be made."""
    tables = connection.tables()
    if not tables:
        return
    if "meta" not in tables:
        raise UserError(f"{path} is a database, but not a memory bank: use --memory OTHER")
    version = version_of(connection)
    if version > VERSION:
        raise UserError(f"memory bank {path} was made by a newer evokernel (schema {version}, this one knows {VERSION}): update it")
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if version < 1 or verdict != "ok":
        raise UserError(f"memory bank {path} is damaged ({' '.join(verdict.split())[:100]}): {elsewhere()}")
