"""Eq. 4 on disk: every update of a value is a row, and a value is the fold of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from evokernel.core.protocols import ItemValue
from evokernel.memory.tables import Connection, places, version_of

ADD_ROW = f"""INSERT INTO ledger (run, attempt, item, stage, scope, reward, alpha, q_before, q_after) VALUES ({places(9)})"""
SET_VALUE = f"""INSERT INTO q (item, stage, scope, q, visits) VALUES ({places(5)})
    ON CONFLICT (item, stage, scope) DO UPDATE SET q = excluded.q, visits = excluded.visits"""
BATCH = 200
"""Updates written at a time: a server far away is asked a few times for all of them."""
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


def learned(old: ItemValue, reward: float, alpha: float) -> ItemValue:
    """Q <- Q + alpha (r - Q)."""
    return ItemValue(old.q + alpha * (reward - old.q), old.visits + 1)


def write(connection: Connection, updates: Sequence[Update]) -> int:
    """Applies updates, oldest first, inside the caller's transaction; gives how many of them the ledger did not have yet.

    Values are computed here and not by the bank, so that a run's own view, a file and a server hold the same bits.
    """
    return sum(write_batch(connection, updates[first : first + BATCH]) for first in range(0, len(updates), BATCH))


def write_batch(connection: Connection, updates: Sequence[Update]) -> int:
    runs, attempts, items = (list(dict.fromkeys(column)) for column in list(zip(*updates, strict=True))[:3])
    known = {
        tuple(row)
        for row in connection.execute(
            f"""SELECT run, attempt, item, stage, scope FROM ledger
            WHERE run IN ({places(len(runs))}) AND attempt IN ({places(len(attempts))})""",
            (*runs, *attempts),
        )
    }
    roots = survivors_of(connection, items)
    values = values_of(connection, list({roots.get(item, item) for item in items}))
    changed: dict[Key, ItemValue] = {}
    rows = []
    for update in updates:
        if update[:5] in known:
            continue
        known.add(update[:5])
        key = (roots.get(update.item, update.item), update.stage, update.scope)
        before = values.get(key, ItemValue())
        values[key] = changed[key] = after = learned(before, update.reward, update.alpha)
        rows.append((*update, before.q, after.q))
    connection.executemany(ADD_ROW, rows)
    connection.executemany(SET_VALUE, [(*key, value.q, value.visits) for key, value in changed.items()])
    return len(rows)


def values_of(connection: Connection, items: Sequence[str]) -> dict[Key, ItemValue]:
    """Q of some items as it is now."""
    rows = connection.execute(f"SELECT item, stage, scope, q, visits FROM q WHERE item IN ({places(len(items))})", items)
    return {(item, stage, scope): ItemValue(q, visits) for item, stage, scope, q, visits in rows}


def head(connection: Connection) -> int:
    """Number of the newest row."""
    return int(connection.execute("SELECT coalesce(max(seq), 0) FROM ledger").fetchone()[0])


class Links(NamedTuple):
    """A merged item, the one its updates count for, and the consolidation that merged them."""

    item: str
    survivor: str
    at: int


def links(connection: Connection) -> list[Links]:
    """All merges of a bank, also of one from before there were any."""
    if version_of(connection) < 5:
        return []
    return [Links(*row) for row in connection.execute("SELECT item, survivor, at FROM merged ORDER BY item")]


def survivors(connection: Connection, until: int | None = None) -> dict[str, str]:
    """By merged item, the one that stands for it now, or stood after a consolidation."""
    step = {link.item: link.survivor for link in links(connection) if until is None or link.at <= until}
    found = {}
    for item, survivor in step.items():
        while survivor in step:
            survivor = step[survivor]
        found[item] = survivor
    return found


def survivors_of(connection: Connection, items: Sequence[str]) -> dict[str, str]:
    """The same for some items."""
    found: dict[str, str] = {}
    ends = {item: [item] for item in items}
    while ends:
        rows = connection.execute(f"SELECT item, survivor FROM merged WHERE item IN ({places(len(ends))})", list(ends)).fetchall()
        further: dict[str, list[str]] = {}
        for item, survivor in rows:
            further.setdefault(survivor, []).extend(ends[item])
            found.update(dict.fromkeys(ends[item], survivor))
        ends = further
    return found


def values_at(connection: Connection, mark: int, consolidations: int) -> dict[Key, ItemValue]:
    """Q as it was when the ledger ended at `mark`, merged as far as items were then, without what has been revoked since."""
    if mark == head(connection) and all(link.at <= consolidations for link in links(connection)):
        rows = connection.execute("SELECT item, stage, scope, q, visits FROM q")
        return {(item, stage, scope): ItemValue(q, visits) for item, stage, scope, q, visits in rows}
    return fold(connection.execute(f"{LIVE} AND seq <= ? ORDER BY seq", (mark,)), survivors(connection, consolidations))


def fold(rows: Iterable[tuple[str, str, str, float, float]], roots: Mapping[str, str] = {}) -> dict[Key, ItemValue]:
    """Item, stage, scope, reward and alpha of each row, oldest first, to the values they make; `roots` are what merged items count for."""
    values: dict[Key, ItemValue] = {}
    for item, stage, scope, reward, alpha in rows:
        item = roots.get(item, item)
        values[item, stage, scope] = learned(values.get((item, stage, scope), ItemValue()), reward, alpha)
    return values


def withdrawn(connection: Connection, run: str) -> set[tuple[str, Key]]:
    """A run's updates that no longer count, by attempt: they are not to be made again when it is resumed."""
    rows = connection.execute("SELECT attempt, item, stage, scope FROM ledger WHERE run = ? AND revoked = 1", (run,))
    return {(attempt, (item, stage, scope)) for attempt, item, stage, scope in rows}


def recompute(connection: Connection, items: Iterable[str]) -> None:
    """Rewrites the values of these items, and their rows' before and after, from the rows that still count."""
    roots = survivors(connection)
    groups: dict[str, list[str]] = {}
    for item, root in roots.items():
        groups.setdefault(root, [root]).append(item)
    batch: list[str] = []
    members: list[str] = []
    for item in items:
        batch.append(item)
        members += [] if item in roots else groups.get(item, [item])
        if len(batch) >= BATCH or len(members) >= BATCH:
            recompute_batch(connection, batch, members, roots)
            batch, members = [], []
    if batch:
        recompute_batch(connection, batch, members, roots)


def recompute_batch(connection: Connection, items: Sequence[str], members: Sequence[str], roots: Mapping[str, str]) -> None:
    """Of some items; `members` are all whose rows count for those that are not merged themselves."""
    connection.execute(f"DELETE FROM q WHERE item IN ({places(len(items))})", items)
    if not members:
        return
    rows = connection.execute(
        f"""SELECT seq, item, stage, scope, reward, alpha FROM ledger
        WHERE item IN ({places(len(members))}) AND revoked = 0 ORDER BY seq""",
        members,
    ).fetchall()
    values: dict[Key, ItemValue] = {}
    told = []
    for seq, item, stage, scope, reward, alpha in rows:
        key = (roots.get(item, item), stage, scope)
        before = values.get(key, ItemValue())
        values[key] = after = learned(before, reward, alpha)
        told.append((before.q, after.q, seq))
    connection.executemany("UPDATE ledger SET q_before = ?, q_after = ? WHERE seq = ?", told)
    connection.executemany(SET_VALUE, [(*key, value.q, value.visits) for key, value in values.items()])
