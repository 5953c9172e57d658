"""Eq. 4 on disk: every update of a value is a row of the ledger, and a value is the fold of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from evokernel.core.memory_ids import make_trace_id, task_of_attempt
from evokernel.core.protocols import ItemValue
from evokernel.memory.tables import BankSnapshot, Connection, placeholders

ADD_ROW = f"""INSERT INTO ledger (run, attempt, item, stage, scope, reward, alpha, q_before, q_after) VALUES ({placeholders(9)})"""
SET_VALUE = f"""INSERT INTO item_values (item, stage, scope, q, visits) VALUES ({placeholders(5)})
    ON CONFLICT (item, stage, scope) DO UPDATE SET q = excluded.q, visits = excluded.visits"""
BATCH = 200
"""Updates written at a time, so that a distant server needs few round trips."""
ACTIVE_ROWS = "SELECT item, stage, scope, reward, alpha FROM ledger WHERE revoked = 0"

ValueKey = tuple[str, str, str]
"""Item, stage, scope."""


class ValueUpdate(NamedTuple):
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
        """The task of the attempt."""
        return task_of_attempt(self.attempt)

    @property
    def memory_id(self) -> str:
        """The attempt as a memory item id: `run:task/n`."""
        return make_trace_id(self.run, self.attempt)


ACTIVE_UPDATES = f"SELECT {', '.join(ValueUpdate._fields)} FROM ledger WHERE revoked = 0 ORDER BY seq"


class HistoryEntry(NamedTuple):
    """One update in the history of an item's value."""

    run: str
    attempt: str
    stage: str
    scope: str
    reward: float
    alpha: float
    q_before: float
    q_after: float
    revoked: bool


def apply_update(value: ItemValue, reward: float, alpha: float) -> ItemValue:
    """Q <- Q + alpha (r - Q)."""
    return ItemValue(value.q + alpha * (reward - value.q), value.visits + 1)


def write_updates(connection: Connection, updates: Sequence[ValueUpdate]) -> int:
    """Apply updates, oldest first; return how many the ledger did not have yet. The caller holds a transaction.

    This function computes the values itself rather than in SQL, so that a run's view, a file and a server hold identical bits.
    """
    return sum(write_batch(connection, updates[first : first + BATCH]) for first in range(0, len(updates), BATCH))


def write_batch(connection: Connection, updates: Sequence[ValueUpdate]) -> int:
    """Apply one batch of updates, and skip those that the ledger already has."""
    runs, attempts, items = (list(dict.fromkeys(column)) for column in list(zip(*updates, strict=True))[:3])
    existing = {
        tuple(row)
        for row in connection.execute(
            f"""SELECT run, attempt, item, stage, scope FROM ledger
            WHERE run IN ({placeholders(len(runs))}) AND attempt IN ({placeholders(len(attempts))})""",
            (*runs, *attempts),
        )
    }
    survivors = survivors_for(connection, items)
    values = load_values(connection, list({survivors.get(item, item) for item in items}))
    new_values: dict[ValueKey, ItemValue] = {}
    rows = []
    for update in updates:
        if update[:5] in existing:
            continue
        existing.add(update[:5])
        key = (survivors.get(update.item, update.item), update.stage, update.scope)
        before = values.get(key, ItemValue())
        values[key] = new_values[key] = after = apply_update(before, update.reward, update.alpha)
        rows.append((*update, before.q, after.q))
    connection.executemany(ADD_ROW, rows)
    connection.executemany(SET_VALUE, [(*key, value.q, value.visits) for key, value in new_values.items()])
    return len(rows)


def load_values(connection: Connection, items: Sequence[str]) -> dict[ValueKey, ItemValue]:
    """The current values of these items."""
    query = f"SELECT item, stage, scope, q, visits FROM item_values WHERE item IN ({placeholders(len(items))})"
    return {(item, stage, scope): ItemValue(q, visits) for item, stage, scope, q, visits in connection.execute(query, items)}


def last_update_number(connection: Connection) -> int:
    """The number of the newest ledger row; 0 for an empty ledger."""
    return int(connection.execute("SELECT coalesce(max(seq), 0) FROM ledger").fetchone()[0])


class MergedItem(NamedTuple):
    """A merged item, the item that its updates count for, and the number of the consolidation that merged them."""

    item: str
    survivor: str
    consolidation: int


def load_merged_items(connection: Connection) -> list[MergedItem]:
    """All merged items of a bank."""
    return [MergedItem(*row) for row in connection.execute("SELECT item, survivor, consolidation FROM merged_items ORDER BY item")]


def load_survivors(connection: Connection, last_consolidation: int | None = None) -> dict[str, str]:
    """For every merged item, the item that its updates count for: now, or after the consolidation with this number."""
    next_item = {
        merge.item: merge.survivor
        for merge in load_merged_items(connection)
        if last_consolidation is None or merge.consolidation <= last_consolidation
    }
    survivors = {}
    for item, survivor in next_item.items():
        while survivor in next_item:
            survivor = next_item[survivor]
        survivors[item] = survivor
    return survivors


def survivors_for(connection: Connection, items: Sequence[str]) -> dict[str, str]:
    """For those of these items that are merged, the item that their updates count for now."""
    survivors: dict[str, str] = {}
    sources = {item: [item] for item in items}
    while sources:
        query = f"SELECT item, survivor FROM merged_items WHERE item IN ({placeholders(len(sources))})"
        next_sources: dict[str, list[str]] = {}
        for item, survivor in connection.execute(query, list(sources)).fetchall():
            next_sources.setdefault(survivor, []).extend(sources[item])
            survivors.update(dict.fromkeys(sources[item], survivor))
        sources = next_sources
    return survivors


def load_values_at(connection: Connection, snapshot: BankSnapshot) -> dict[ValueKey, ItemValue]:
    """The values at a snapshot, with the merges of that time and without updates that have been revoked since."""
    last_consolidation = snapshot.last_consolidation
    is_current = snapshot.last_update == last_update_number(connection)
    if is_current and all(merge.consolidation <= last_consolidation for merge in load_merged_items(connection)):
        rows = connection.execute("SELECT item, stage, scope, q, visits FROM item_values")
        return {(item, stage, scope): ItemValue(q, visits) for item, stage, scope, q, visits in rows}
    rows = connection.execute(f"{ACTIVE_ROWS} AND seq <= ? ORDER BY seq", (snapshot.last_update,))
    return fold_updates(rows, load_survivors(connection, last_consolidation))


def fold_updates(rows: Iterable[tuple[str, str, str, float, float]], survivors: Mapping[str, str] = {}) -> dict[ValueKey, ItemValue]:
    """The values that result from ledger rows (item, stage, scope, reward, alpha), oldest first.

    `survivors` maps a merged item to the item that its updates count for.
    """
    values: dict[ValueKey, ItemValue] = {}
    for item, stage, scope, reward, alpha in rows:
        item = survivors.get(item, item)
        values[item, stage, scope] = apply_update(values.get((item, stage, scope), ItemValue()), reward, alpha)
    return values


def load_revoked_updates(connection: Connection, run: str) -> set[tuple[str, ValueKey]]:
    """A run's revoked updates, by attempt: the run must not apply them again when it is resumed."""
    rows = connection.execute("SELECT attempt, item, stage, scope FROM ledger WHERE run = ? AND revoked = 1", (run,))
    return {(attempt, (item, stage, scope)) for attempt, item, stage, scope in rows}


def recompute_values(connection: Connection, items: Iterable[str]) -> None:
    """Compute the values of these items, and `q_before` and `q_after` of their rows, again from the rows that are not revoked."""
    survivors = load_survivors(connection)
    groups: dict[str, list[str]] = {}
    for item, survivor in survivors.items():
        groups.setdefault(survivor, [survivor]).append(item)
    batch: list[str] = []
    members: list[str] = []
    for item in items:
        batch.append(item)
        members += [] if item in survivors else groups.get(item, [item])
        if len(batch) >= BATCH or len(members) >= BATCH:
            recompute_batch(connection, batch, members, survivors)
            batch, members = [], []
    if batch:
        recompute_batch(connection, batch, members, survivors)


def recompute_batch(connection: Connection, items: Sequence[str], members: Sequence[str], survivors: Mapping[str, str]) -> None:
    """Recompute the values of some items; `members` are all items whose rows count for those that are not merged themselves."""
    connection.execute(f"DELETE FROM item_values WHERE item IN ({placeholders(len(items))})", items)
    if not members:
        return
    rows = connection.execute(
        f"""SELECT seq, item, stage, scope, reward, alpha FROM ledger
        WHERE item IN ({placeholders(len(members))}) AND revoked = 0 ORDER BY seq""",
        members,
    ).fetchall()
    values: dict[ValueKey, ItemValue] = {}
    row_values = []
    for seq, item, stage, scope, reward, alpha in rows:
        key = (survivors.get(item, item), stage, scope)
        before = values.get(key, ItemValue())
        values[key] = after = apply_update(before, reward, alpha)
        row_values.append((before.q, after.q, seq))
    connection.executemany("UPDATE ledger SET q_before = ?, q_after = ? WHERE seq = ?", row_values)
    connection.executemany(SET_VALUE, [(*key, value.q, value.visits) for key, value in values.items()])
