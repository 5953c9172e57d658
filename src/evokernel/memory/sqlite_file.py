"""A memory bank in a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from evokernel.core.errors import UserError
from evokernel.memory.tables import BankSnapshot, SearchMode, check_schema_version, create_tables, read_schema_version, write_transaction

BUSY_TIMEOUT_S = 60.0
VECTORS_TABLE = "CREATE TABLE vectors (seq INTEGER PRIMARY KEY REFERENCES items (seq), vector BLOB NOT NULL)"
CORRUPTION_CODES = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
ACCESS_CODES = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
T = TypeVar("T")


class SqliteConnection(sqlite3.Connection):
    """An open bank in a file (implements Connection)."""

    sql_dialect = {
        "row_number": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "text": "TEXT",
        "real": "REAL",
        "blob": "BLOB",
        "without_rowid": "WITHOUT ROWID",
        "searchable_text": "json_extract(record, '$.title', '$.text', '$.code')",
        "like": "LIKE",
    }
    path: Path

    def begin_write(self) -> None:
        """IMMEDIATE, because SQLite rejects a transaction that reads first and writes later if another writer came between."""
        self.execute("BEGIN IMMEDIATE")

    def begin_read(self) -> None:
        self.execute("BEGIN")

    def run_in_transaction(self, action: Callable[[], T]) -> T:
        with write_transaction(self):
            return action()

    def run_with_retries(self, action: Callable[[], T]) -> T:
        return action()

    def table_names(self) -> set[str]:
        return {row[0] for row in self.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}

    def change_token(self) -> str:
        return str(self.execute("PRAGMA data_version").fetchone()[0])

    def store_vector(self, seq: int, backend: str, vector: bytes) -> None:
        self.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", (seq, vector))

    def delete_vectors(self) -> None:
        self.execute("DELETE FROM vectors")

    def choose_search_mode(self, backend: str, snapshot: BankSnapshot) -> SearchMode:
        """The process that opened a file searches it in memory."""
        return SearchMode.IN_MEMORY

    def size_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.path.parent.glob(f"{self.path.name}*"))


@contextmanager
def translate_db_errors(path: Path) -> Iterator[None]:
    """Translate SQLite errors of the file into a UserError of one line that names the fix."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in CORRUPTION_CODES:
            raise UserError(f"memory bank {path} is damaged ({error}): {other_bank_hint()}") from error
        if code in ACCESS_CODES:
            raise UserError(f"memory bank {path} cannot be written ({error}): make its folder writable, or use --memory OTHER") from error
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise UserError(f"memory bank {path} cannot be written ({error}): free some space and resume, no data is lost") from error
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise UserError(f"memory bank {path} is locked by another process: wait for it, or use --memory OTHER") from error
        raise


def other_bank_hint() -> str:
    """The fix to suggest for a bank that cannot be used."""
    return "move it away, or use --memory OTHER"


def open_connection(path: Path, target: Path | str, **options: bool) -> SqliteConnection:
    """Open the file at `target`, which is `path` or a file URI with an access mode."""
    connection: SqliteConnection = sqlite3.connect(
        target, timeout=BUSY_TIMEOUT_S, isolation_level=None, factory=SqliteConnection, **options
    )
    connection.path = path
    return connection


def open_or_create(path: Path) -> SqliteConnection:
    """Open the bank for reading and writing; create it if it does not exist."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create the folder of memory bank {path}: {error.strerror}; use --memory OTHER") from error
    with translate_db_errors(path):
        connection = open_connection(path, path)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            check_bank(connection, path)
            with write_transaction(connection):
                create_tables(connection, (VECTORS_TABLE,))
        except (sqlite3.Error, UserError):
            connection.close()
            raise
        return connection


def connect_read_only(path: Path) -> SqliteConnection:
    """Open an existing bank for reading only; this also works in a folder without write permission."""
    if not path.is_file():
        raise UserError(f"there is no memory bank at {path}: name one with --memory PATH, or create one with evokernel run")
    with translate_db_errors(path):
        for mode in ("mode=ro", "immutable=1"):
            connection = open_connection(path, f"{path.absolute().as_uri()}?{mode}", uri=True)
            try:
                check_bank(connection, path)
                if not connection.table_names():
                    raise UserError(f"memory bank {path} is empty: fill it with evokernel run --memory {path}")
                return connection
            except (sqlite3.Error, UserError) as error:
                connection.close()
                # Without write permission SQLite cannot create the shared memory of the WAL. Then no other process writes either.
                if mode == "immutable=1" or getattr(error, "sqlite_errorcode", 0) & 0xFF not in ACCESS_CODES:
                    raise
    raise AssertionError("unreachable: the last mode either returns or raises")


def check_bank(connection: SqliteConnection, path: Path) -> None:
    """Raise UserError unless the file is an intact bank of the supported schema, or empty and about to become one."""
    tables = connection.table_names()
    if not tables:
        return
    if "meta" not in tables:
        raise UserError(f"{path} is a database, but not a memory bank: use --memory OTHER")
    version = read_schema_version(connection)
    integrity = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if version < 1 or integrity != "ok":
        raise UserError(f"memory bank {path} is damaged ({' '.join(integrity.split())[:100]}): {other_bank_hint()}")
    check_schema_version(path, version)
