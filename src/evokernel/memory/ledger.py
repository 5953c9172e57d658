"""Eq. 4 on disk: every update of a value is a row, and a value is the fold of its rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from evokernel.core.protocols import Value

# The same operations in the same order as `learned`, so that a run's own view and the file hold the same bits.
ADD_ROW = """INSERT OR IGNORE INTO ledger (run, attempt, item, stage, scope, reward, alpha, q_before, q_after)
    SELECT :run, :attempt, :item, :stage, :scope, :reward, :alpha, old, old + :alpha * (:reward - old) FROM
    (SELECT coalesce((SELECT q FROM q WHERE item = :item AND stage = :stage AND scope = :scope), 0.0) AS old)"""
ADD_VALUE = """INSERT INTO q (item, stage, scope, q, visits) VALUES (:item, :stage, :scope, 0.0 + :alpha * (:reward - 0.0), 1)
    ON CONFLICT DO UPDATE SET q = q + :alpha * (:reward - q), visits = visits + 1"""
LIVE = "SELECT item, stage, scope, reward, alpha FROM ledger WHERE revoked = 0"

Key = tuple[str, str, str]
"""Item, stage, scope."""


class Update(NamedTuple):
    """One item's share of one attempt's reward."""

    run: str
    attempt: str
    item: str
    stage: str
    scope: str
    reward: float
    alpha: float

    @property
    def task(self) -> str:
        """The task it was learned on."""
        return self.attempt.rpartition("/")[0]

    @property
    def trace(self) -> str:
        """The attempt as items are called."""
        return f"{self.run}:{self.attempt}"


LIVE_UPDATES = f"SELECT {', '.join(Update._fields)} FROM ledger WHERE revoked = 0 ORDER BY seq"


class Step(NamedTuple):
    """A row of an item's history."""

    run: str
    attempt: str
    stage: str
    scope: str
    reward: float
    alpha: float
    q_before: float
    q_after: float
    revoked: bool


def learned(old: Value, reward: float, alpha: float) -> Value:
    """Q <- Q + alpha (r - Q)."""
    return Value(old.q + alpha * (reward - old.q), old.visits + 1)


def write(connection: sqlite3.Connection, update: Update) -> bool:
    """Applies an update inside the caller's transaction; False when the ledger already has it."""
    row = update._asdict()
    fresh = connection.execute(ADD_ROW, row).rowcount == 1
    if fresh:
        connection.execute(ADD_VALUE, row)
    return fresh


def head(connection: sqlite3.Connection) -> int:
    """Number of the newest row."""
    return int(connection.execute("SELECT coalesce(max(seq), 0) FROM ledger").fetchone()[0])


def values_at(connection: sqlite3.Connection, mark: int) -> dict[Key, Value]:
    """Q as it was when the ledger ended at `mark`, without what has been revoked since."""
    if mark == head(connection):
        rows = connection.execute("SELECT item, stage, scope, q, visits FROM q")
        return {(item, stage, scope): Value(q, visits) for item, stage, scope, q, visits in rows}
    return fold(connection.execute(f"{LIVE} AND seq <= ? ORDER BY seq", (mark,)))


def fold(rows: Iterable[tuple[str, str, str, float, float]]) -> dict[Key, Value]:
    """Item, stage, scope, reward and alpha of each row, oldest first, to the values they make."""
    values: dict[Key, Value] = {}
    for item, stage, scope, reward, alpha in rows:
        values[item, stage, scope] = learned(values.get((item, stage, scope), Value()), reward, alpha)
    return values


def withdrawn(connection: sqlite3.Connection, run: str) -> set[tuple[str, Key]]:
    """A run's updates that no longer count, by attempt: they are not to be made again when it is resumed."""
    rows = connection.execute("SELECT attempt, item, stage, scope FROM ledger WHERE run = ? AND revoked = 1", (run,))
    return {(attempt, (item, stage, scope)) for attempt, item, stage, scope in rows}


def recompute(connection: sqlite3.Connection, items: Iterable[str]) -> None:
    """Rewrites the values of these items, and their rows' before and after, from the rows that still count."""
    for item in items:
        connection.execute("DELETE FROM q WHERE item = ?", (item,))
        values: dict[Key, Value] = {}
        rows = connection.execute(
            "SELECT seq, stage, scope, reward, alpha FROM ledger WHERE item = ? AND revoked = 0 ORDER BY seq", (item,)
        ).fetchall()
        for seq, stage, scope, reward, alpha in rows:
            before = values.get((item, stage, scope), Value())
            values[item, stage, scope] = after = learned(before, reward, alpha)
            connection.execute("UPDATE ledger SET q_before = ?, q_after = ? WHERE seq = ?", (before.q, after.q, seq))
        connection.executemany("INSERT INTO q VALUES (?, ?, ?, ?, ?)", [(*key, value.q, value.visits) for key, value in values.items()])
