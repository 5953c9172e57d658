"""A bank on a PostgreSQL server, where runs on many machines learn into it."""

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
from evokernel.memory.remote_index import SKETCH, Far, sketch
from evokernel.memory.tables import VERSION, Mark, Rows, Values, bring_up, transaction, version_of

log = logging.getLogger(__name__)
T = TypeVar("T")
PATIENCE = {"connect_timeout": 10, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
"""Unless the URL says otherwise; without, a server whose machine lost its power would be waited for as long as TCP does."""
LOCK_TIMEOUT_S = 60
WAITS_S = (0.2, 0.5, 1, 2, 4, 8, 15, 30, 30, 30)
"""Between tries to reach a server that went away: two minutes in all, time enough for a restart."""
OWN = (
    # Items with the same key (attempts on one task) share a row; a search is over these.
    """CREATE TABLE keys (id {number}, backend {text} NOT NULL, sha256 {text} NOT NULL, vector BYTEA NOT NULL,
       sketch REAL[] NOT NULL, UNIQUE (backend, sha256))""",
    # A row is read with its vector, from one page.
    "ALTER TABLE keys ALTER COLUMN vector SET STORAGE EXTERNAL, ALTER COLUMN sketch SET STORAGE EXTERNAL, SET (toast_tuple_target = 8160)",
    "ALTER TABLE items ADD COLUMN key BIGINT REFERENCES keys (id)",
    "CREATE INDEX items_by_key ON items (key, seq)",
    "CREATE VIEW vectors AS SELECT items.seq, keys.vector FROM items JOIN keys ON keys.id = items.key",
)
TEXTS = r"""(SELECT concat(held -> 'title', held -> 'text', held -> 'code')
    FROM (SELECT replace(record, '\u0000', '\ufffd')::json AS held) AS parsed)"""
"""Of a record; a server reads no JSON that holds a zero."""
LARGE, MANY = 50_000, 50_000
"""Items of a backend beyond which a run no longer holds them all, and keys beyond which it does not hold these: the server is asked."""
HNSW = f"USING hnsw ({SKETCH} vector_ip_ops)"
LAID_OUT = "WITH (m = 16, ef_construction = 200)"
"""Of an index: with a quarter of it, a million keys that have little in common are found at 0.6."""
VECTOR = (0, 8)
HAS_VECTOR = "SELECT installed_version, default_version FROM pg_available_extensions WHERE name = 'vector'"
LOST = (
    *(errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow, errors.ConnectionException, errors.TooManyConnections),
    *(errors.IdleSessionTimeout, errors.IdleInTransactionSessionTimeout),
)
COLLIDED = (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable)
"""Others were in the way: somebody who tidies a large bank, say."""


@lru_cache(maxsize=512)
def translated(statement: str) -> str:
    """With values as psycopg marks them."""
    return re.sub(r"(?<!:):(\w+)", r"%(\1)s", statement.replace("%", "%%").replace("?", "%s"))


class Server:
    """A bank (a Connection)."""

    words: Mapping[str, str] = {
        "number": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "text": 'TEXT COLLATE "C"',
        "real": "DOUBLE PRECISION",
        "blob": "BYTEA",
        "flat": "",
        "texts": TEXTS,
        "like": "ILIKE",
    }

    def __init__(self, url: ServerUrl, read_only: bool = False) -> None:
        self.url, self.read_only = url, read_only
        self._indexed: set[str] = set()
        self._connection = self._first_reached()

    def _first_reached(self) -> psycopg.Connection[Any]:
        """A server that is about to be there is waited for; one that is not there at all is not."""
        for wait in WAITS_S:
            try:
                return self._reached()
            except psycopg.OperationalError as error:
                if not any(words in str(error) for words in COMING):
                    raise
                time.sleep(wait)
        return self._reached()

    def _reached(self) -> psycopg.Connection[Any]:
        given = {name: value for name, value in PATIENCE.items() if name not in self.url.text}
        connection = psycopg.connect(self.url.target, autocommit=True, prepare_threshold=None, **given, **self.url.secrets)
        connection.execute(f'SET search_path = "{self.url.schema}", public')
        connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT_S}s'")
        if self.read_only:
            connection.execute("SET default_transaction_read_only = on")
        return connection

    @property
    def in_transaction(self) -> bool:
        return not self._connection.closed and self._connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE

    def execute(self, statement: str, values: Values = (), /) -> Rows:
        looks = self.read_only and not self.in_transaction
        if looks and self._connection.closed:
            self._connection = self._reached()  # whoever looks for hours sees a server come back
        try:
            return self._asked(statement, values)
        except psycopg.Error as error:
            if not looks or not went_away(error):
                raise
        self._connection.close()
        self._connection = self._reached()  # or end the sessions of those who do nothing
        return self._asked(statement, values)

    def _asked(self, statement: str, values: Values) -> Rows:
        rows: Rows = self._connection.execute(translated(statement) if values else statement, values or None, binary=True)
        return rows

    def executemany(self, statement: str, rows: Iterable[Values], /) -> object:
        self._connection.cursor().executemany(translated(statement), list(rows))
        return None

    def begin(self) -> None:
        """Writers wait for each other: rows are committed in the order of their numbers, so that a mark holds all before it."""
        self._connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")  # whatever the server's default: what others wrote is seen
        self._connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"evokernel bank {self.url.schema}",))

    def begin_reading(self) -> None:
        self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def written(self, action: Callable[[], T]) -> T:
        def whole() -> T:
            with transaction(self):
                return action()

        return self.again(whole)

    def again(self, action: Callable[[], T]) -> T:
        """Does it; when the server goes away in the middle, once more on a new connection, until it is back or the waits are over."""
        for wait in (*WAITS_S, None):
            try:
                if self._connection.closed:
                    self._connection = self._reached()
                return action()
            except psycopg.Error as error:
                if wait is None or not (isinstance(error, COLLIDED) or went_away(error)):
                    raise
                if not isinstance(error, COLLIDED):
                    self._connection.close()
                self._indexed.clear()  # an index may have gone with its transaction
                log.warning("memory bank %s: %s; trying again in %g s", self.url, one_line(self.url, error), wait)
                time.sleep(wait)
        raise AssertionError("the last try either returns or raises")

    def tables(self) -> set[str]:
        found = self.execute("SELECT tablename FROM pg_tables WHERE schemaname = ?", (self.url.schema,))
        return {row[0] for row in found}

    def state(self) -> str:
        """Which transactions are over: of anybody on this server, as nothing cheaper tells of this bank's alone."""
        return str(self.execute("SELECT pg_current_snapshot()::text").fetchone()[0])

    def put_vector(self, seq: int, backend: str, vector: bytes) -> None:
        sha256 = hashlib.sha256(vector).hexdigest()
        found = self.execute("SELECT id FROM keys WHERE backend = ? AND sha256 = ?", (backend, sha256)).fetchone()
        if not found:
            self._index(backend)
            row = (backend, sha256, vector, sketch(np.frombuffer(vector, "<i2")))
            found = self.execute("INSERT INTO keys (backend, sha256, vector, sketch) VALUES (?, ?, ?, ?) RETURNING id", row).fetchone()
        self.execute("UPDATE items SET key = ? WHERE seq = ?", (found[0], seq))

    def forget_vectors(self) -> None:
        self.execute("UPDATE items SET key = NULL")
        self.execute("DELETE FROM keys")

    def _index(self, backend: str) -> None:
        """Sees to it that a backend's keys can be searched by the server, where that has pgvector and allows it; inside a transaction."""
        if backend in self._indexed:
            return
        self._indexed.add(backend)
        vector = self.execute(HAS_VECTOR).fetchone()
        if not vector or is_old(vector[0] or vector[1]) or self.is_indexed(backend):
            return
        self.execute("SAVEPOINT before_index")
        try:
            self.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
            self.execute(f"CREATE INDEX IF NOT EXISTS {index_name(backend)} ON keys {HNSW} {LAID_OUT} WHERE backend = {literal(backend)}")
        except errors.UniqueViolation:  # the bank of another schema was making the extension, too
            self.execute("ROLLBACK TO before_index")
            self._indexed.discard(backend)  # with the next key, then
        except (errors.InsufficientPrivilege, errors.UndefinedObject, errors.FeatureNotSupported, errors.UndefinedFile) as error:
            self.execute("ROLLBACK TO before_index")
            log.warning("memory bank %s goes without an index for %s: %s", self.url, backend, one_line(self.url, error))

    def is_indexed(self, backend: str) -> bool:
        """By a pgvector that can go on looking where filters left too few."""
        asked = """SELECT extversion FROM pg_indexes, pg_extension WHERE schemaname = ? AND indexname = ? AND extname = 'vector'"""
        found = self.execute(asked, (self.url.schema, index_name(backend))).fetchone()
        return found is not None and not is_old(found[0])

    def far(self, backend: str, mark: Mark) -> Far | None:
        def exceed(what: str, most: int) -> bool:
            counted = f"SELECT count(*) FROM (SELECT 1 FROM {what} LIMIT ?) AS held"
            return bool(self.execute(counted, (backend, most + 1)).fetchone()[0] > most)

        if not exceed(f"items WHERE backend = ? AND {mark.seen}", LARGE):
            return None
        few_keys = not exceed("keys WHERE backend = ?", MANY)
        return Far(self, backend, mark, few_keys) if few_keys or self.is_indexed(backend) else None

    def size_bytes(self) -> int:
        sizes = "SELECT coalesce(sum(pg_total_relation_size(format('%I.%I', schemaname, tablename)::regclass)), 0)::bigint FROM pg_tables"
        return int(self.execute(f"{sizes} WHERE schemaname = ?", (self.url.schema,)).fetchone()[0])

    def close(self) -> None:
        self._connection.close()


def is_old(version: str) -> bool:
    """Whether a pgvector cannot go on looking where filters left too few."""
    return tuple(map(int, re.findall(r"\d+", version)[:2])) < VECTOR


def index_name(backend: str) -> str:
    """Of the index on a backend's keys: names of backends may hold what names of indexes may not."""
    return f"keys_near_{hashlib.sha256(backend.encode()).hexdigest()[:12]}"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def connect(url: ServerUrl) -> Server:
    """For reading and writing, made when there is none."""
    with trouble(url):
        server = Server(url)
        try:
            check(server)
            server.written(lambda: made(server))
        except (psycopg.Error, UserError):
            server.close()
            raise
        return server


def made(server: Server) -> None:
    """Makes the bank, or brings it forward; inside a transaction."""
    if not server.tables():
        server.execute(f'CREATE SCHEMA IF NOT EXISTS "{server.url.schema}"')
    bring_up(server, OWN)


def connect_to_read(url: ServerUrl) -> Server:
    """An existing bank, never changed."""
    with trouble(url):
        server = Server(url, read_only=True)
        try:
            check(server)
            if not server.tables():
                raise UserError(f"there is no memory bank at {url}: name one with --memory, or make one with evokernel run")
        except (psycopg.Error, UserError):
            server.close()
            raise
        return server


def looked_at(url: ServerUrl) -> str:
    """A server in words: its version, pgvector, and the bank on it. Nothing is made."""
    with trouble(url):
        server = Server(url, read_only=True)
        try:
            check(server)
            version = server.execute("SHOW server_version").fetchone()[0].split()[0]
            vector = server.execute(HAS_VECTOR).fetchone()
            held = "no bank yet; the first run makes it"
            if server.tables():
                items, runs = (server.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("items", "runs"))
                held = f"{items} items of {runs} runs"
        finally:
            server.close()
    has = "no pgvector: search is exact, by each run, which is slow beyond some hundred thousand items"
    if vector:
        has = f"pgvector {vector[0]}" if vector[0] else f"pgvector {vector[1]}, not created in this database yet"
        has += " (not used, as it is older than 0.8)" if is_old(vector[0] or vector[1]) else ""
    return f"PostgreSQL {version}, {has}; {held}"


def check(server: Server) -> None:
    """Refuses what is not a bank of a version we know."""
    tables = server.tables()
    if tables and not {"meta", "items", "ledger", "q"} <= tables:
        raise UserError(f"schema {server.url.schema} of {server.url} is no memory bank: name another with ?schema=OTHER")
    if tables and not server.execute("SELECT has_schema_privilege(?, 'USAGE')", (server.url.schema,)).fetchone()[0]:
        raise UserError(f"memory bank {server.url}: permission denied for schema {server.url.schema}; {ASK}")
    if tables and (version := version_of(server)) > VERSION:
        raise UserError(f"memory bank {server.url} was made by a newer evokernel (schema {version}, this one knows {VERSION}): update it")


def went_away(error: psycopg.Error) -> bool:
    """Whether it is the server that is not there, rather than something it said."""
    if isinstance(error, LOST):
        return True
    if not isinstance(error, psycopg.OperationalError) or error.sqlstate:
        return False
    return not any(words in str(error) for words in (*WRONG_LOGIN, NO_DATABASE))


WRONG_LOGIN = ("password authentication failed", "no password supplied", "no pg_hba.conf entry", 'role "', "authentication failed")
NO_DATABASE = 'database "'
COMING = ("starting up", "not yet accepting connections", "shutting down", "in recovery mode")
ASK = "ask for the rights, as docs/shared-memory.md lists them, or use --memory OTHER"


@contextmanager
def trouble(url: BankLocation) -> Iterator[None]:
    """Says in one line what is wrong with the server and how to go on."""
    assert isinstance(url, ServerUrl)
    try:
        yield
    except psycopg.Error as error:
        said = one_line(url, error)
        told = f"memory bank {url}"
        if isinstance(error, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
            raise UserError(f"{told}: {said}; {ASK}") from error
        if isinstance(error, errors.LockNotAvailable):
            raise UserError(f"{told} is held by another process: wait for it, or use --memory OTHER") from error
        if isinstance(error, errors.DiskFull):
            raise UserError(f"{told} cannot be written ({said}): free some space on the server and resume, nothing is lost") from error
        if isinstance(error, psycopg.OperationalError) and not error.sqlstate and NO_DATABASE in said and "does not exist" in said:
            raise UserError(f"{told}: {said}; make it with createdb, or name another") from error
        if isinstance(error, psycopg.OperationalError) and any(words in said for words in WRONG_LOGIN):
            raise UserError(f"{told}: {said}; set PGPASSWORD, or add a line to ~/.pgpass") from error
        if isinstance(error, psycopg.DataError):
            raise UserError(f"{told} cannot hold what was asked for ({said}): leave it out") from error
        if isinstance(error, psycopg.OperationalError) or went_away(error):
            raise InfraError(f"{told} cannot be reached ({said}): start it, or check its host and port") from error
        if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn | errors.UndefinedFunction):
            raise UserError(f"{told} is damaged, or somebody else's ({said}): name another with ?schema=OTHER") from error
        if isinstance(error, psycopg.ProgrammingError) and not error.sqlstate:
            raise UserError(f"{told} is no URL of a server ({said}): postgresql://USER@HOST/DATABASE is one") from error
        raise


def one_line(url: ServerUrl, error: psycopg.Error) -> str:
    """What the server or the way to it said, without anybody's password."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return url.hide(lines[0] if lines else type(error).__name__)
