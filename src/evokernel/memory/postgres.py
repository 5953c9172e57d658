"""A memory bank on a PostgreSQL server, which runs on many machines share."""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import psycopg
from psycopg import errors

from evokernel.core.bank_uri import BankLocation, ServerUrl
from evokernel.core.errors import InfraError, UserError
from evokernel.memory.remote_index import SKETCH_EXPRESSION, sketch_vector
from evokernel.memory.tables import (
    BankSnapshot,
    QueryResult,
    SearchMode,
    SqlParameters,
    check_schema_version,
    create_tables,
    read_schema_version,
    write_transaction,
)

log = logging.getLogger(__name__)
T = TypeVar("T")
CONNECTION_TIMEOUTS = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""Defaults for options that the URL does not set. Without them, a client waits as long as TCP does for a server that lost its power."""
LOCK_TIMEOUT_S = 60
RETRY_WAITS_S = (0.2, 0.5, 1, 2, 4, 8, 15, 30, 30, 30)
"""Waits between attempts to reconnect: two minutes in total, which covers a restart of the server."""
SERVER_TABLES = (
    # Items with the same embedding (attempts on one task) share a row. A search runs over these rows.
    """CREATE TABLE embeddings (id {row_number}, backend {text} NOT NULL, sha256 {text} NOT NULL, vector BYTEA NOT NULL,
       sketch REAL[] NOT NULL, UNIQUE (backend, sha256))""",
    # Store a row with its vector in one page.
    "ALTER TABLE embeddings ALTER COLUMN vector SET STORAGE EXTERNAL, ALTER COLUMN sketch SET STORAGE EXTERNAL, "
    "SET (toast_tuple_target = 8160)",
    "ALTER TABLE items ADD COLUMN embedding BIGINT REFERENCES embeddings (id)",
    "CREATE INDEX items_by_embedding ON items (embedding, seq)",
    "CREATE VIEW vectors AS SELECT items.seq, embeddings.vector FROM items JOIN embeddings ON embeddings.id = items.embedding",
)
SEARCHABLE_TEXT = r"""(SELECT concat(document -> 'title', document -> 'text', document -> 'code')
    FROM (SELECT replace(record, '\u0000', '\ufffd')::json AS document) AS parsed)"""
"""Title, text and code of a record. PostgreSQL cannot parse JSON that contains a NUL character, so NUL is replaced."""
MAX_ITEMS_IN_MEMORY, MAX_EMBEDDINGS_IN_MEMORY = 50_000, 50_000
"""A backend with more items is searched on the server; with more embeddings, the server also ranks them."""
HNSW = f"USING hnsw ({SKETCH_EXPRESSION} vector_ip_ops)"
HNSW_OPTIONS = "WITH (m = 16, ef_construction = 200)"
"""Options of the index. A quarter of ef_construction gives a recall of 0.6 on a million dissimilar embeddings."""
MIN_PGVECTOR = (0, 8)
PGVECTOR_QUERY = "SELECT installed_version, default_version FROM pg_available_extensions WHERE name = 'vector'"
CONNECTION_LOST = (
    *(errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow, errors.ConnectionException, errors.TooManyConnections),
    *(errors.IdleSessionTimeout, errors.IdleInTransactionSessionTimeout),
)
CONTENTION = (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable)
"""Errors caused by other processes that use the bank, such as a long consolidation."""


@lru_cache(maxsize=512)
def to_psycopg_placeholders(statement: str) -> str:
    """The statement with the parameter placeholders of psycopg (`%s`, `%(name)s`) in place of `?` and `:name`."""
    return re.sub(r"(?<!:):(\w+)", r"%(\1)s", statement.replace("%", "%%").replace("?", "%s"))


class PostgresConnection:
    """An open bank on a server (implements Connection)."""

    sql_dialect: Mapping[str, str] = {
        "row_number": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "text": 'TEXT COLLATE "C"',
        "real": "DOUBLE PRECISION",
        "blob": "BYTEA",
        "without_rowid": "",
        "searchable_text": SEARCHABLE_TEXT,
        "like": "ILIKE",
    }

    def __init__(self, url: ServerUrl, read_only: bool = False) -> None:
        self.url, self.read_only = url, read_only
        self._indexed_backends: set[str] = set()
        self._connection = self._connect_when_ready()

    def _connect_when_ready(self) -> psycopg.Connection[Any]:
        """Connect to the server. Wait if it is starting up; raise at once if nothing listens at its address."""
        for wait_s in RETRY_WAITS_S:
            try:
                return self._open_connection()
            except psycopg.OperationalError as error:
                if not any(phrase in str(error) for phrase in STARTING_UP):
                    raise
                time.sleep(wait_s)
        return self._open_connection()

    def _open_connection(self) -> psycopg.Connection[Any]:
        timeouts = {name: value for name, value in CONNECTION_TIMEOUTS.items() if name not in self.url.text}
        connection = psycopg.connect(self.url.connection_url, autocommit=True, prepare_threshold=None, **timeouts, **self.url.secrets)
        connection.execute(f'SET search_path = "{self.url.schema}", public')
        connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT_S}s'")
        if self.read_only:
            connection.execute("SET default_transaction_read_only = on")
        return connection

    @property
    def in_transaction(self) -> bool:
        return not self._connection.closed and self._connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE

    def execute(self, statement: str, values: SqlParameters = (), /) -> QueryResult:
        can_reconnect = self.read_only and not self.in_transaction
        if can_reconnect and self._connection.closed:
            self._connection = self._open_connection()  # a reader that stays open for hours survives a restart of the server
        try:
            return self._execute_once(statement, values)
        except psycopg.Error as error:
            if not can_reconnect or not is_connection_lost(error):
                raise
        self._connection.close()
        self._connection = self._open_connection()  # the server may also end idle sessions
        return self._execute_once(statement, values)

    def _execute_once(self, statement: str, values: SqlParameters) -> QueryResult:
        rows: QueryResult = self._connection.execute(
            to_psycopg_placeholders(statement) if values else statement, values or None, binary=True
        )
        return rows

    def executemany(self, statement: str, rows: Iterable[SqlParameters], /) -> object:
        self._connection.cursor().executemany(to_psycopg_placeholders(statement), list(rows))
        return None

    def begin_write(self) -> None:
        """Writers wait for each other, so rows are committed in the order of their numbers and a snapshot contains all rows before it."""
        self._connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")  # whatever the server's default: see what others committed
        self._connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"evokernel bank {self.url.schema}",))

    def begin_read(self) -> None:
        self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def run_in_transaction(self, action: Callable[[], T]) -> T:
        def run_transaction() -> T:
            with write_transaction(self):
                return action()

        return self.run_with_retries(run_transaction)

    def run_with_retries(self, action: Callable[[], T]) -> T:
        """Run the action. If the connection is lost, reconnect and run it again, until the waits in RETRY_WAITS_S are used up."""
        for wait_s in (*RETRY_WAITS_S, None):
            try:
                if self._connection.closed:
                    self._connection = self._open_connection()
                return action()
            except psycopg.Error as error:
                if wait_s is None or not (isinstance(error, CONTENTION) or is_connection_lost(error)):
                    raise
                if not isinstance(error, CONTENTION):
                    self._connection.close()
                self._indexed_backends.clear()  # the lost transaction may have created an index
                log.warning("memory bank %s: %s; trying again in %g s", self.url, first_error_line(self.url, error), wait_s)
                time.sleep(wait_s)
        raise AssertionError("bug: the last attempt neither returned nor raised")

    def table_names(self) -> set[str]:
        rows = self.execute("SELECT tablename FROM pg_tables WHERE schemaname = ?", (self.url.schema,))
        return {row[0] for row in rows}

    def change_token(self) -> str:
        """The finished transactions of the entire server: PostgreSQL has no cheaper counter for one schema."""
        return str(self.execute("SELECT pg_current_snapshot()::text").fetchone()[0])

    def store_vector(self, seq: int, backend: str, vector: bytes) -> None:
        sha256 = hashlib.sha256(vector).hexdigest()
        row = self.execute("SELECT id FROM embeddings WHERE backend = ? AND sha256 = ?", (backend, sha256)).fetchone()
        if not row:
            self._ensure_index(backend)
            values = (backend, sha256, vector, sketch_vector(np.frombuffer(vector, "<i2")))
            insert = "INSERT INTO embeddings (backend, sha256, vector, sketch) VALUES (?, ?, ?, ?) RETURNING id"
            row = self.execute(insert, values).fetchone()
        self.execute("UPDATE items SET embedding = ? WHERE seq = ?", (row[0], seq))

    def delete_vectors(self) -> None:
        self.execute("UPDATE items SET embedding = NULL")
        self.execute("DELETE FROM embeddings")

    def _ensure_index(self, backend: str) -> None:
        """Create the HNSW index for a backend's embeddings if pgvector is available and permitted; the caller holds a transaction."""
        if backend in self._indexed_backends:
            return
        self._indexed_backends.add(backend)
        vector = self.execute(PGVECTOR_QUERY).fetchone()
        if not vector or is_too_old(vector[0] or vector[1]) or self.is_indexed(backend):
            return
        self.execute("SAVEPOINT before_index")
        try:
            self.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
            condition = f"WHERE backend = {quote_literal(backend)}"
            self.execute(f"CREATE INDEX IF NOT EXISTS {index_name(backend)} ON embeddings {HNSW} {HNSW_OPTIONS} {condition}")
        except errors.UniqueViolation:  # the bank of another schema creates the extension at the same time
            self.execute("ROLLBACK TO before_index")
            self._indexed_backends.discard(backend)  # try again with the next embedding
        except (errors.InsufficientPrivilege, errors.UndefinedObject, errors.FeatureNotSupported, errors.UndefinedFile) as error:
            self.execute("ROLLBACK TO before_index")
            log.warning("memory bank %s has no index for %s: %s", self.url, backend, first_error_line(self.url, error))

    def is_indexed(self, backend: str) -> bool:
        """Whether the backend has an index, made by a pgvector that continues a scan when filters leave too few rows."""
        query = "SELECT extversion FROM pg_indexes, pg_extension WHERE schemaname = ? AND indexname = ? AND extname = 'vector'"
        row = self.execute(query, (self.url.schema, index_name(backend))).fetchone()
        return row is not None and not is_too_old(row[0])

    def choose_search_mode(self, backend: str, snapshot: BankSnapshot) -> SearchMode:
        def has_more_than(limit: int, rows: str) -> bool:
            query = f"SELECT count(*) FROM (SELECT 1 FROM {rows} LIMIT ?) AS counted"
            return bool(self.execute(query, (backend, limit + 1)).fetchone()[0] > limit)

        if not has_more_than(MAX_ITEMS_IN_MEMORY, f"items WHERE backend = ? AND {snapshot.visibility_condition}"):
            return SearchMode.IN_MEMORY
        if not has_more_than(MAX_EMBEDDINGS_IN_MEMORY, "embeddings WHERE backend = ?"):
            return SearchMode.SERVER_ITEMS
        return SearchMode.SERVER_INDEX if self.is_indexed(backend) else SearchMode.IN_MEMORY

    def size_bytes(self) -> int:
        sizes = "SELECT coalesce(sum(pg_total_relation_size(format('%I.%I', schemaname, tablename)::regclass)), 0)::bigint FROM pg_tables"
        return int(self.execute(f"{sizes} WHERE schemaname = ?", (self.url.schema,)).fetchone()[0])

    def close(self) -> None:
        self._connection.close()


def is_too_old(version: str) -> bool:
    """Whether a pgvector version cannot continue a scan when filters leave too few rows."""
    return tuple(map(int, re.findall(r"\d+", version)[:2])) < MIN_PGVECTOR


def index_name(backend: str) -> str:
    """The name of the index on a backend's embeddings: a hash, because backend names may contain characters that SQL names may not."""
    return f"embeddings_near_{hashlib.sha256(backend.encode()).hexdigest()[:12]}"


def quote_literal(text: str) -> str:
    """The text as a SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def open_or_create(url: ServerUrl) -> PostgresConnection:
    """Open the bank for reading and writing; create it if it does not exist."""
    with translate_db_errors(url):
        server = PostgresConnection(url)
        try:
            check_bank(server)
            server.run_in_transaction(lambda: create_bank(server))
        except (psycopg.Error, UserError):
            server.close()
            raise
        return server


def create_bank(server: PostgresConnection) -> None:
    """Create the schema and its tables if they do not exist; the caller holds a transaction."""
    if not server.table_names():
        server.execute(f'CREATE SCHEMA IF NOT EXISTS "{server.url.schema}"')
    create_tables(server, SERVER_TABLES)


def connect_read_only(url: ServerUrl) -> PostgresConnection:
    """Open an existing bank for reading only."""
    with translate_db_errors(url):
        server = PostgresConnection(url, read_only=True)
        try:
            check_bank(server)
            if not server.table_names():
                raise UserError(f"there is no memory bank at {url}: name one with --memory, or create one with evokernel run")
        except (psycopg.Error, UserError):
            server.close()
            raise
        return server


def describe_server(url: ServerUrl) -> str:
    """One line about a server: its version, pgvector, and the size of its bank. The server is only read."""
    with translate_db_errors(url):
        server = PostgresConnection(url, read_only=True)
        try:
            check_bank(server)
            version = server.execute("SHOW server_version").fetchone()[0].split()[0]
            vector = server.execute(PGVECTOR_QUERY).fetchone()
            contents = "no bank yet; the first run creates it"
            if server.table_names():
                items, runs = (server.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("items", "runs"))
                contents = f"{items} item{'s' * (items != 1)} of {runs} run{'s' * (runs != 1)}"
        finally:
            server.close()
    extension = "no pgvector: each run searches exactly, which is slow beyond some hundred thousand items"
    if vector:
        extension = f"pgvector {vector[0]}" if vector[0] else f"pgvector {vector[1]}, not yet created in this database"
        extension += " (not used, because it is older than 0.8)" if is_too_old(vector[0] or vector[1]) else ""
    return f"PostgreSQL {version}, {extension}; {contents}"


def check_bank(server: PostgresConnection) -> None:
    """Raise UserError unless the schema is a readable bank of the supported version, or empty and about to become one."""
    tables = server.table_names()
    if not tables:
        return
    if not {"meta", "items", "ledger"} <= tables:
        raise UserError(f"schema {server.url.schema} of {server.url} is not a memory bank: name another schema with ?schema=OTHER")
    if not server.execute("SELECT has_schema_privilege(?, 'USAGE')", (server.url.schema,)).fetchone()[0]:
        raise UserError(f"memory bank {server.url}: permission denied for schema {server.url.schema}; {RIGHTS_HINT}")
    check_schema_version(server.url, read_schema_version(server))


def is_connection_lost(error: psycopg.Error) -> bool:
    """Whether the server could not be reached or ended the session, as opposed to an error that it reported."""
    if isinstance(error, CONNECTION_LOST):
        return True
    if not isinstance(error, psycopg.OperationalError) or error.sqlstate:
        return False
    return not any(phrase in str(error) for phrase in (*LOGIN_ERRORS, NO_DATABASE))


LOGIN_ERRORS = ("password authentication failed", "no password supplied", "no pg_hba.conf entry", 'role "', "authentication failed")
NO_DATABASE = 'database "'
STARTING_UP = ("starting up", "not yet accepting connections", "shutting down", "in recovery mode")
RIGHTS_HINT = "ask for the rights that docs/shared-memory.md lists, or use --memory OTHER"


@contextmanager
def translate_db_errors(url: BankLocation) -> Iterator[None]:
    """Translate psycopg errors into a UserError or InfraError of one line that names the fix."""
    assert isinstance(url, ServerUrl)
    try:
        yield
    except psycopg.Error as error:
        reason = first_error_line(url, error)
        bank = f"memory bank {url}"
        if isinstance(error, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
            raise UserError(f"{bank}: {reason}; {RIGHTS_HINT}") from error
        if isinstance(error, errors.LockNotAvailable):
            raise UserError(f"{bank} is locked by another process: wait for it, or use --memory OTHER") from error
        if isinstance(error, errors.DiskFull):
            raise UserError(f"{bank} cannot be written ({reason}): free some space on the server and resume, no data is lost") from error
        if isinstance(error, psycopg.OperationalError) and not error.sqlstate and NO_DATABASE in reason and "does not exist" in reason:
            raise UserError(f"{bank}: {reason}; create it with createdb, or name another") from error
        if isinstance(error, psycopg.OperationalError) and any(phrase in reason for phrase in LOGIN_ERRORS):
            raise UserError(f"{bank}: {reason}; set PGPASSWORD, or add a line to ~/.pgpass") from error
        if isinstance(error, psycopg.DataError):
            raise UserError(f"{bank} cannot store or search this value ({reason}): remove it") from error
        if isinstance(error, psycopg.OperationalError) or is_connection_lost(error):
            raise InfraError(f"{bank} cannot be reached ({reason}): start it, or check its host and port") from error
        if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn | errors.UndefinedFunction):
            raise UserError(f"{bank} is damaged or not a memory bank ({reason}): name another schema with ?schema=OTHER") from error
        if isinstance(error, psycopg.ProgrammingError) and not error.sqlstate:
            raise UserError(f"{bank} is not a valid server URL ({reason}): use the form postgresql://USER@HOST/DATABASE") from error
        raise


def first_error_line(url: ServerUrl, error: psycopg.Error) -> str:
    """The first line of the server's or client's error message, without passwords."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return url.redact(lines[0] if lines else type(error).__name__)
