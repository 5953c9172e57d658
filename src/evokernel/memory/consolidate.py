"""Keep a bank from growing without bound: merge near copies of kernels and archive items of low value.

No data is lost: archived items stay in the bank, can be listed and restored, and the ledger keeps every row. The updates of a merged item
count for its survivor, so values are still the fold of the ledger. Runs in progress do not see the changes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from evokernel.core.bank_uri import BankLocation, parse_location
from evokernel.core.code_text import Ngrams, code_ngrams, jaccard_similarity
from evokernel.core.errors import UserError
from evokernel.core.memory_ids import make_note_id
from evokernel.memory import ledger
from evokernel.memory.schema import connect_existing, other_bank_hint, translate_db_errors
from evokernel.memory.tables import Connection, Rollback, placeholders, read_transaction, write_transaction

BATCH = 500


class Limits(NamedTuple):
    """The thresholds for merging and archiving."""

    min_similarity: float = 0.9
    """Merge two kernels from this Jaccard similarity of their token n-grams on."""
    max_value: float = -0.5
    """Archive items whose value is below this at every stage…"""
    min_visits: int = 5
    """…and that have at least this many visits."""
    max_per_task: int = 100
    """Attempts to keep per task: kernels with their notes, and notes without a kernel. Beyond that, archive those of lowest value."""


DEFAULT_LIMITS = Limits()


class ItemRow(NamedTuple):
    """A kernel, or a note, whose text is not loaded."""

    seq: int
    id: str
    task: str
    feasible: int | None
    latency_us: float | None
    reason: str
    code: str

    @property
    def rank(self) -> tuple[float, int]:
        """Sort key: fastest first, then oldest."""
        return (float("inf") if self.latency_us is None else self.latency_us, self.seq)


class Merge(NamedTuple):
    """A kernel that is a near copy of another one."""

    item: str
    survivor: str
    similarity: float


class ArchivedItem(NamedTuple):
    """An archived item and the reason."""

    item: str
    reason: str


class Consolidation(NamedTuple):
    """The changes of a consolidation, applied or only planned."""

    number: int
    merged: tuple[Merge, ...]
    archived: tuple[ArchivedItem, ...]
    items_before: int
    items_after: int
    recomputed_values: int
    """Items whose values changed because updates of merged items now count for them."""


def consolidate(path: BankLocation, limits: Limits = DEFAULT_LIMITS, backend: str = "", dry_run: bool = False) -> Consolidation:
    """Plan the changes while other processes may write, then apply them in one transaction. The best kernel of a task always stays."""
    path = parse_location(path)
    connection = connect_existing(path)
    result = Consolidation(0, (), (), 0, 0, 0)
    try:
        with translate_db_errors(path), suppress(Rollback):
            with read_transaction(connection):
                merges, archived = plan_changes(connection, path, limits, backend)
            with write_transaction(connection):
                number = 1 + last_consolidation_number(connection)
                items_before = count_visible_items(connection)
                merges, archived = drop_stale_changes(connection, merges, archived)
                value_count = apply_changes(connection, number, merges, archived)
                items_after = count_visible_items(connection)
                result = Consolidation(number, tuple(merges), tuple(archived), items_before, items_after, value_count)
                if dry_run or not (merges or archived):
                    raise Rollback
                record_consolidation(connection, number, {"limits": limits._asdict(), "merged": merges, "archived": archived})
    finally:
        connection.close()
    return result


def plan_changes(connection: Connection, path: BankLocation, limits: Limits, backend: str) -> tuple[list[Merge], list[ArchivedItem]]:
    """The kernels to merge and the items to archive."""
    merges: list[Merge] = []
    archived: list[ArchivedItem] = []
    values = load_best_values(connection)
    for traces, notes in iterate_tasks(connection, path, backend):
        task_merges = list(find_near_copies(traces, limits.min_similarity))
        merges += task_merges
        archived += select_items_to_archive(*group_remaining_items(traces, notes, task_merges), values, limits)
    return merges, archived


def drop_stale_changes(connection: Connection, merges: list[Merge], archived: list[ArchivedItem]) -> tuple[list[Merge], list[ArchivedItem]]:
    """The changes without those for items that another process revoked or archived since the plan was made."""
    visible = find_visible_ids(connection, [name for merge in merges for name in merge[:2]] + [entry.item for entry in archived])
    return [merge for merge in merges if {merge.item, merge.survivor} <= visible], [entry for entry in archived if entry.item in visible]


def find_visible_ids(connection: Connection, ids: Iterable[str]) -> set[str]:
    """Those of these ids whose items are neither revoked nor archived."""
    names = list(dict.fromkeys(ids))
    visible: set[str] = set()
    for first in range(0, len(names), BATCH):
        batch = names[first : first + BATCH]
        query = f"SELECT id FROM items WHERE id IN ({placeholders(len(batch))}) AND revoked = 0 AND archived_by = 0"
        visible.update(row[0] for row in connection.execute(query, batch))
    return visible


def last_consolidation_number(connection: Connection) -> int:
    """The number of the newest consolidation; 0 if there is none."""
    return int(connection.execute("SELECT coalesce(max(number), 0) FROM consolidations").fetchone()[0])


def record_consolidation(connection: Connection, number: int, report: dict[str, object]) -> None:
    """Store the report of a consolidation in the bank."""
    connection.execute("INSERT INTO consolidations VALUES (?, ?)", (number, json.dumps(report)))


def count_visible_items(connection: Connection) -> int:
    """The number of items that are neither revoked nor archived."""
    return int(connection.execute("SELECT count(*) FROM items WHERE revoked = 0 AND archived_by = 0").fetchone()[0])


def iterate_tasks(connection: Connection, path: BankLocation, backend: str) -> Iterator[tuple[list[ItemRow], list[ItemRow]]]:
    """Visible kernels and notes, task by task, so that memory holds the code of one task at a time."""
    visible = "kind IN ('trace', 'experience') AND revoked = 0 AND archived_by = 0 AND task IS NOT NULL AND ? IN ('', backend)"
    tasks = connection.execute(f"SELECT DISTINCT backend, task FROM items WHERE {visible} ORDER BY 1, 2", (backend,)).fetchall()
    for name, task in tasks:
        rows = connection.execute(
            f"""SELECT seq, id, task, feasible, latency_us, CASE kind WHEN 'trace' THEN record END FROM items
            WHERE {visible} AND backend = ? AND task = ? ORDER BY seq""",
            (backend, name, task),
        ).fetchall()
        try:
            records = [(row, json.loads(row[5])) for row in rows if row[5] is not None]
        except ValueError as error:
            raise UserError(f"memory bank {path} contains an unreadable record: {other_bank_hint()}") from error
        traces = [ItemRow._make((*row[:5], record.get("reason", ""), record.get("code", ""))) for row, record in records]
        yield traces, [ItemRow._make((*row[:5], "", "")) for row in rows if row[5] is None]


def find_near_copies(traces: Sequence[ItemRow], min_similarity: float) -> Iterator[Merge]:
    """Merges of kernels into a better-ranked near copy with the same outcome."""
    groups: dict[tuple[int | None, str], list[ItemRow]] = defaultdict(list)
    for trace in sorted(traces, key=lambda trace: trace.rank):
        groups[trace.feasible, trace.reason].append(trace)
    for group in groups.values():
        survivors: list[tuple[ItemRow, Ngrams]] = []
        for trace in group:
            ngrams = code_ngrams(trace.code)
            similarity, best = max(((jaccard_similarity(ngrams, others), -n) for n, (_, others) in enumerate(survivors)), default=(0.0, 0))
            if survivors and similarity >= min_similarity:
                yield Merge(trace.id, survivors[-best][0].id, round(similarity, 3))
            else:
                survivors.append((trace, ngrams))


def load_best_values(connection: Connection) -> dict[str, tuple[float, int]]:
    """For each item, its highest value at any stage and the sum of its visits."""
    values: dict[str, tuple[float, int]] = {}
    for item, q, visits in connection.execute("SELECT item, q, visits FROM item_values WHERE scope = ''"):
        highest, total = values.get(item, (float("-inf"), 0))
        values[item] = (max(highest, q), total + visits)
    return values


class AttemptItems(NamedTuple):
    """The remaining items of one attempt: a kernel, usually with a note, or a note alone."""

    main_item: ItemRow
    item_ids: tuple[str, ...]
    """The items that are kept or archived together."""
    has_kernel: bool


def group_remaining_items(
    traces: Sequence[ItemRow], notes: Sequence[ItemRow], merges: Sequence[Merge]
) -> tuple[list[AttemptItems], AttemptItems | None]:
    """The items of a task that remain after merging, grouped by attempt, and the attempt with the best kernel."""
    visible_notes = {note.id for note in notes}
    merged_ids = {merge.item for merge in merges}
    grouped_ids = {make_note_id(merge.item) for merge in merges if make_note_id(merge.survivor) in visible_notes}
    kernels = [
        AttemptItems(trace, tuple(id for id in (trace.id, make_note_id(trace.id)) if id == trace.id or id in visible_notes), True)
        for trace in traces
        if trace.id not in merged_ids
    ]
    grouped_ids |= {id for attempt in kernels for id in attempt.item_ids}
    best = min((attempt for attempt in kernels if attempt.main_item.feasible), key=lambda attempt: attempt.main_item.rank, default=None)
    return [*kernels, *(AttemptItems(note, (note.id,), False) for note in notes if note.id not in grouped_ids)], best


def select_items_to_archive(
    attempts: Sequence[AttemptItems], best: AttemptItems | None, values: dict[str, tuple[float, int]], limits: Limits
) -> Iterator[ArchivedItem]:
    """Kernels and notes with many visits and a low value, and the attempts of lowest value beyond the limit per task."""
    low_value_ids = set()
    for id in (id for attempt in attempts if attempt != best for id in attempt.item_ids):
        q, visits = values.get(id, (0.0, 0))
        if visits >= limits.min_visits and q < limits.max_value:
            low_value_ids.add(id)
            yield ArchivedItem(id, f"value {q:+.2f} or less at every stage after {visits} visits")

    def sort_key(attempt: AttemptItems) -> tuple[float, bool, bool, tuple[float, int]]:
        value = max((values[id][0] for id in attempt.item_ids if id in values), default=0.0)
        return (-value, not attempt.has_kernel, not attempt.main_item.feasible, attempt.main_item.rank)

    rest = [
        AttemptItems(
            attempt.main_item,
            tuple(id for id in attempt.item_ids if id not in low_value_ids),
            attempt.has_kernel and attempt.main_item.id not in low_value_ids,
        )
        for attempt in attempts
    ]
    rest = sorted((attempt for attempt in rest if attempt != best and attempt.item_ids), key=sort_key)
    for attempt in rest[max(0, limits.max_per_task - (best is not None)) :]:
        reason = f"beyond the limit of {limits.max_per_task} attempts for {attempt.main_item.task}"
        yield from (ArchivedItem(id, reason) for id in attempt.item_ids)


def apply_changes(connection: Connection, number: int, merges: Iterable[Merge], archived: Iterable[ArchivedItem]) -> int:
    """Archive items and merge kernels together with their notes; return how many values were recomputed."""
    pairs = [(merge.item, merge.survivor) for merge in merges]
    note_pairs = [(make_note_id(item), make_note_id(survivor)) for item, survivor in pairs]
    visible = find_visible_ids(connection, [name for pair in note_pairs for name in pair])
    pairs += [pair for pair in note_pairs if set(pair) <= visible]
    paired_ids = {name for pair in pairs for name in pair}
    # A run may have added an item again that was merged before.
    unarchive_items(connection, sorted(paired_ids & ledger.load_survivors(connection).keys()))
    connection.executemany("INSERT INTO merged_items VALUES (?, ?, ?)", [(*pair, number) for pair in pairs])
    ids = [*(entry.item for entry in archived), *(item for item, _ in pairs)]
    connection.executemany("UPDATE items SET archived_by = ? WHERE id = ? AND archived_by = 0", [(number, id) for id in ids])
    survivors = ledger.load_survivors(connection)
    surviving_ids = {survivors.get(id, id) for id in paired_ids}
    ledger.recompute_values(connection, sorted(paired_ids | surviving_ids))
    return len(surviving_ids)


def restore_items(path: BankLocation, *ids: str) -> tuple[str, ...]:
    """Make archived items active again, with their own values; return their ids."""
    path = parse_location(path)
    connection = connect_existing(path)
    try:
        with translate_db_errors(path), write_transaction(connection):
            for id in ids:
                if not connection.execute("SELECT 1 FROM items WHERE id = ? AND archived_by > 0", (id,)).fetchone():
                    raise UserError(f"memory bank {path} has no archived item '{id}': list them with evokernel memory list --archived")
            unarchive_items(connection, ids)
            record_consolidation(connection, 1 + last_consolidation_number(connection), {"restored": ids})
    finally:
        connection.close()
    return ids


def unarchive_items(connection: Connection, ids: Iterable[str]) -> None:
    """Make items active and undo their merges; the caller holds a transaction."""
    rows = [(id,) for id in ids]
    survivors = ledger.load_survivors(connection)
    affected_ids = {name for (id,) in rows for name in (id, survivors.get(id, id))}
    connection.executemany("DELETE FROM merged_items WHERE item = ?", rows)
    connection.executemany("UPDATE items SET archived_by = 0 WHERE id = ?", rows)
    ledger.recompute_values(connection, sorted(affected_ids))
