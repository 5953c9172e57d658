"""The durable queue: every accepted verification is in an SQLite file, and on disk, before its client gets an answer.

A verification is `queued`, then `running`, then it ends once: `done` (it has an outcome), `failed` (no worker could complete it) or
`cancelled`. At the next start of the server, those that were running are queued again.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from evokernel.core.errors import UserError

State = Literal["queued", "running", "done", "failed", "cancelled"]
FINAL_STATES = ("done", "failed", "cancelled")
MAX_STARTS = 5
"""A verification that was running when the server died is started again at most this often."""
VERSION = 1
"""Of the tables; a journal of another version is refused."""
SCHEMA = Path(__file__).with_name("journal.sql")


class NewJob(NamedTuple):
    """A verification to accept."""

    request: str
    """The request as JSON."""
    fingerprint: str
    """Hash of everything in the request that decides the outcome."""
    task: str
    task_record: str
    """The task as JSON if the client sent its source; empty if the server knows the task."""
    backend: str
    candidate: str

    @property
    def stored_bytes(self) -> int:
        """About how much room it takes."""
        return len(self.request) + len(self.task_record)


class StoredJob(NamedTuple):
    """A verification as the journal keeps it; the fields before `content` are columns of the table."""

    seq: int
    id: str
    tenant: str
    batch: str
    state: State
    seed: int
    session: str
    starts: int
    created_at: float
    started_at: float | None
    finished_at: float | None
    result: str
    error: str
    reused_from: str
    content: NewJob

    @property
    def is_final(self) -> bool:
        """Whether it ended."""
        return self.state in FINAL_STATES


class Ending(NamedTuple):
    """How a verification ended."""

    state: State
    result: str = ""
    """The result as JSON; empty without an outcome."""
    error: str = ""
    reused_from: str = ""
    """Id of the verification that the result was copied from."""
    is_repeatable: bool = False
    """Whether an identical request may be answered with this result."""


class Accepted(NamedTuple):
    """The ids of verifications that the journal keeps, and whether an earlier request with the same key made them."""

    ids: tuple[str, ...]
    batch: str
    is_replay: bool


class Limits(NamedTuple):
    """How many verifications may wait or run: of one tenant, and of all."""

    tenant: int
    server: int


class QueueFull(Exception):
    """No further verification is accepted now; `of_server` says whether the server's limit or the tenant's is reached."""

    def __init__(self, of_server: bool) -> None:
        super().__init__("the queue is full")
        self.of_server = of_server


class KeyConflict(Exception):
    """The idempotency key belongs to an earlier request with another body."""


class JobJournal:
    """The SQLite file of one server. Thread-safe; a second server with the same folder is refused."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lock = folder, threading.RLock()
        self.session = secrets.token_hex(8)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.lock_file = os.open(folder / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self.lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.connection = sqlite3.connect(folder / "jobs.db", check_same_thread=False, isolation_level=None, timeout=30)
            [[version]] = self.connection.execute("PRAGMA user_version")
            if version not in (0, VERSION):
                raise UserError(f"another version of evokernel wrote the journal in {folder}. Choose another folder with --folder.")
            self.connection.executescript(f"{SCHEMA.read_text()}PRAGMA user_version = {VERSION};")
        except BlockingIOError as error:
            raise UserError(f"another server uses {folder}. Stop it, or choose another folder with --folder.") from error
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"cannot keep the journal in {folder}: {error}. Choose another folder with --folder.") from error
        self.recovered = self.requeue_interrupted()

    def close(self) -> None:
        """Close the file and let another server use the folder."""
        with self.lock:
            self.connection.close()
            os.close(self.lock_file)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Change the file; the changes are on disk when the block ends."""
        with self.lock:
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")

    def requeue_interrupted(self) -> int:
        """Queue verifications again that ran when the server died; give up on one that did so too often."""
        with self.transaction() as connection:
            message = f"the server stopped {MAX_STARTS} times while it was verified"
            connection.execute(
                "UPDATE jobs SET state = 'failed', error = ?, finished_at = ? WHERE state = 'running' AND starts >= ?",
                (message, time.time(), MAX_STARTS),
            )
            return connection.execute("UPDATE jobs SET state = 'queued', started_at = NULL WHERE state = 'running'").rowcount

    def accept(self, tenant: str, jobs: Sequence[NewJob], limits: Limits, *, key: str, body: str, is_batch: bool) -> Accepted:
        """Store verifications, all or none. Raises QueueFull, or KeyConflict if the key was used for another body."""
        with self.transaction() as connection:
            if key and (earlier := self.find_key(tenant, key, body)):
                return earlier
            self.check_room(connection, tenant, len(jobs), limits)
            batch = secrets.token_hex(12) if is_batch else ""
            ids = tuple(secrets.token_hex(12) for _ in jobs)
            now = time.time()
            rows = [(id, tenant, batch, *job, secrets.randbits(48), now, job.stored_bytes) for id, job in zip(ids, jobs)]
            columns = ("id", "tenant", "batch", *NewJob._fields, "seed", "created_at", "bytes")
            connection.executemany(f"INSERT INTO jobs ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})", rows)
            if key:
                connection.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?)", (tenant, key, body, batch or ids[0], now))
        return Accepted(ids, batch, False)

    def find_key(self, tenant: str, key: str, body: str) -> Accepted | None:
        """What an earlier request with this key made. Raises KeyConflict if its body was another one."""
        row = self.connection.execute("SELECT body, target FROM keys WHERE tenant = ? AND key = ?", (tenant, key)).fetchone()
        if row is None:
            return None
        if row[0] != body:
            raise KeyConflict
        ids = tuple(job.id for job in self.list_batch(tenant, row[1]))
        return Accepted(ids or (row[1],), row[1] if ids else "", True)

    def check_room(self, connection: sqlite3.Connection, tenant: str, count: int, limits: Limits) -> None:
        """Raise QueueFull if `count` further verifications exceed a limit."""
        waiting = dict(connection.execute("SELECT tenant, count(*) FROM jobs WHERE state IN ('queued', 'running') GROUP BY tenant"))
        if waiting.get(tenant, 0) + count > limits.tenant:
            raise QueueFull(of_server=False)
        if sum(waiting.values()) + count > limits.server:
            raise QueueFull(of_server=True)

    def find_job(self, id: str, tenant: str | None = None) -> StoredJob | None:
        """A verification, if it exists and belongs to the tenant (None: any)."""
        jobs = self.select("id = ? AND tenant = coalesce(?, tenant)", (id, tenant))
        return jobs[0] if jobs else None

    def list_jobs(self, tenant: str, state: str, before: int, limit: int) -> list[StoredJob]:
        """The newest verifications of a tenant, in a state or in any, older than the one with number `before` (0: all)."""
        where = "tenant = ? AND ? IN ('', state) AND (? = 0 OR seq < ?)"
        return self.select(f"{where} ORDER BY seq DESC LIMIT ?", (tenant, state, before, before, limit))

    def list_batch(self, tenant: str, batch: str) -> list[StoredJob]:
        """The verifications of a batch in the order of the request."""
        return self.select("tenant = ? AND batch = ? AND batch <> '' ORDER BY seq", (tenant, batch))

    def select(self, where: str, values: Sequence[object]) -> list[StoredJob]:
        """Read verifications."""
        own = StoredJob._fields[:-1]
        columns = ", ".join((*own, *NewJob._fields))
        with self.lock:
            rows = self.connection.execute(f"SELECT {columns} FROM jobs WHERE {where}", tuple(values)).fetchall()
        return [StoredJob._make((*row[: len(own)], NewJob._make(row[len(own) :]))) for row in rows]

    def list_queued(self) -> list[tuple[str, str]]:
        """Tenant and id of everything that waits, oldest first."""
        with self.lock:
            return list(self.connection.execute("SELECT tenant, id FROM jobs WHERE state = 'queued' ORDER BY seq"))

    def find_reusable(self, job: StoredJob) -> StoredJob | None:
        """A verification of the same tenant with the same content that this server has completed since it started."""
        where = "tenant = ? AND fingerprint = ? AND session = ? AND state = 'done' AND reused_from = '' AND is_repeatable = 1"
        found = self.select(f"{where} ORDER BY seq LIMIT 1", (job.tenant, job.content.fingerprint, self.session))
        return found[0] if found else None

    def mark_running(self, id: str) -> bool:
        """Start a queued verification; False if it is not queued any more."""
        query = "UPDATE jobs SET state = 'running', started_at = ?, starts = starts + 1, session = ? WHERE id = ? AND state = 'queued'"
        with self.transaction() as connection:
            return connection.execute(query, (time.time(), self.session, id)).rowcount == 1

    def finish(self, id: str, ending: Ending) -> bool:
        """Store how a running verification ended; False if it has ended already, so that it is answered once."""
        columns = ", ".join(f"{name} = ?" for name in Ending._fields)
        with self.transaction() as connection:
            query = f"UPDATE jobs SET {columns}, finished_at = ?, bytes = bytes + ? WHERE id = ? AND state = 'running'"
            return connection.execute(query, (*ending, time.time(), len(ending.result), id)).rowcount == 1

    def cancel(self, id: str, tenant: str) -> bool:
        """Cancel a verification that still waits; False if it does not."""
        query = "UPDATE jobs SET state = 'cancelled', finished_at = ? WHERE id = ? AND tenant = ? AND state = 'queued'"
        with self.transaction() as connection:
            return connection.execute(query, (time.time(), id, tenant)).rowcount == 1

    def count_states(self) -> dict[str, int]:
        """The number of verifications in each state."""
        with self.lock:
            return dict(self.connection.execute("SELECT state, count(*) FROM jobs GROUP BY state"))

    def delete_older(self, days: float) -> int:
        """Delete verifications that ended before that, and keys of that age."""
        limit = time.time() - days * 86400
        with self.transaction() as connection:
            connection.execute("DELETE FROM keys WHERE created_at < ?", (limit,))
            return connection.execute("DELETE FROM jobs WHERE finished_at < ?", (limit,)).rowcount

    def delete_oldest(self, max_bytes: int) -> int:
        """Delete the oldest verifications that ended of each tenant that stores more than `max_bytes`."""
        deleted = 0
        with self.lock:
            totals = dict(self.connection.execute("SELECT tenant, sum(bytes) FROM jobs GROUP BY tenant"))
        for tenant, total in totals.items():
            deleted += self.free_bytes(tenant, total - max_bytes) if total > max_bytes else 0
        return deleted

    def free_bytes(self, tenant: str, excess: int) -> int:
        """Delete the oldest verifications that ended of a tenant until `excess` bytes are free."""
        last = 0
        with self.transaction() as connection:
            rows = connection.execute("SELECT seq, bytes FROM jobs WHERE tenant = ? AND finished_at > 0 ORDER BY seq", (tenant,))
            for seq, size in rows:
                last, excess = seq, excess - size
                if excess <= 0:
                    break
            query = "DELETE FROM jobs WHERE tenant = ? AND finished_at > 0 AND seq <= ?"
            return connection.execute(query, (tenant, last)).rowcount
