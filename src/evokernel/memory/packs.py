"""Export a bank, or a part of it, as a memory pack, and import packs into other banks; values survive bit for bit."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, NamedTuple

from evokernel.core import paths
from evokernel.core.bank_uri import BankLocation, parse_location
from evokernel.core.errors import UserError
from evokernel.core.memory_ids import is_model_id, is_nothing_id
from evokernel.core.protocols import Embedder
from evokernel.core.records import MemoryItem
from evokernel.memory import ledger, provenance
from evokernel.memory.bank import CANDIDATE_PREFIX
from evokernel.memory.consolidate import last_consolidation_number, record_consolidation
from evokernel.memory.index import quantize_vectors
from evokernel.memory.item_rows import claim_embedder, embedding_text, parse_item, store_item
from evokernel.memory.pack_file import MemoryPack, PackedMerge, PackFilters, PackHeader, format_header, read_pack, summarize_items
from evokernel.memory.schema import connect_read_only, open_or_create, translate_db_errors
from evokernel.memory.tables import Connection


class ImportResult(NamedTuple):
    """The numbers of items and value updates that an import added."""

    items: int
    updates: int
    archived: int = 0
    """Added items that the bank had already merged into others; they are archived."""


class ExportExclusions(NamedTuple):
    """Tasks and items that an export leaves out in addition to its filters, together with every update learned on them."""

    tasks: frozenset[str] = frozenset()
    items: frozenset[str] = frozenset()


NO_FILTERS, NO_EXCLUSIONS = PackFilters(), ExportExclusions()


def export_pack(
    path: BankLocation, file: Path, filters: PackFilters = NO_FILTERS, exclusions: ExportExclusions = NO_EXCLUSIONS
) -> PackHeader:
    """Write a pack with the selected items and their value updates; updates learned on tasks outside the pack are left out."""
    path = parse_location(path)
    connection = connect_read_only(path)
    try:
        with translate_db_errors(path), tempfile.TemporaryFile() as body:
            connection.begin_read()  # items and ledger of one moment, whatever other processes write
            header = write_pack_body(connection, path, body, filters, exclusions)
            body.seek(0)
            with paths.replace_file(file) as output:
                output.write(format_header(header).encode())
                shutil.copyfileobj(body, output)
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}; choose another path") from error
    finally:
        connection.close()
    return header


def write_pack_body(
    connection: Connection, path: BankLocation, body: IO[bytes], filters: PackFilters, exclusions: ExportExclusions
) -> PackHeader:
    """Write every line except the first; return the header for the first line."""
    digest = hashlib.sha256()

    def write_line(line: str) -> None:
        digest.update(f"{line}\n".encode())
        body.write(f"{line}\n".encode())

    items: dict[str, MemoryItem] = {}
    item_counts, update_counts = Counter[str](), Counter[str]()
    rows = connection.execute(
        "SELECT id, run, kind, task, record FROM items WHERE revoked = 0 AND archived_by = 0 AND ? IN ('', backend) ORDER BY seq",
        (filters.backend,),
    )
    for id, run, kind, task, record in rows:
        is_selected = id not in exclusions.items and (kind in filters.kinds or not filters.kinds)
        if is_selected and (task is None or is_exported_task(task, filters, exclusions)):
            items[id] = parse_item(path, record)
            item_counts[run] += 1
            write_line(f'{{"item": {record}, "run": {json.dumps(run)}}}')
    survivors = {item: survivor for item, survivor in ledger.load_survivors(connection).items() if survivor in items}
    for item, survivor in survivors.items():
        write_line(json.dumps({"merged": {"item": item, "survivor": survivor}}))
    for row in connection.execute(ledger.ACTIVE_UPDATES):
        update = ledger.ValueUpdate(*row)
        is_general = is_nothing_id(update.item, filters.backend) or is_model_id(update.item, filters.backend)
        is_about_items = survivors.get(update.item, update.item) in items or (is_general and not filters.kinds)
        is_selected = is_about_items and update.memory_id not in exclusions.items
        if is_selected and is_exported_task(update.task, filters, exclusions):
            update_counts[update.run] += 1
            write_line(json.dumps({"update": update._asdict()}))
    metadata = provenance.load_all_metadata(connection)
    runs = tuple(
        provenance.RunProvenance(
            run=run,
            items=item_counts[run],
            updates=update_counts[run],
            **metadata.get(run, provenance.RunMetadata()).model_dump(),
        )
        for run in sorted((item_counts.keys() | update_counts.keys()) - {""})
    )
    summary = summarize_items(items.values())
    contents = {"sha256": digest.hexdigest(), "updates": update_counts.total(), "runs": runs, "filters": filters}
    return PackHeader.model_validate({**summary, **contents})


def is_exported_task(task: str, filters: PackFilters, exclusions: ExportExclusions = NO_EXCLUSIONS) -> bool:
    """Whether items and updates of a task go into the pack."""
    is_included = not (filters.tasks or filters.suites)
    is_included = is_included or any(fnmatchcase(task, pattern) for pattern in filters.tasks)
    is_included = is_included or any(is_in_suite(task, suite) for suite in filters.suites)
    is_excluded = any(fnmatchcase(task, name) or is_in_suite(task, name) for name in filters.exclude) or task in exclusions.tasks
    return is_included and not is_excluded


def is_in_suite(task: str, suite: str) -> bool:
    """Whether a task belongs to a suite, given by name or pattern."""
    return fnmatchcase(task.partition("/")[0], suite)


def find_unmatched_filters(path: BankLocation, filters: PackFilters) -> Iterator[tuple[str, list[str]]]:
    """Every name in the filters that matches nothing in the bank, with the names that the bank has."""
    path = parse_location(path)
    connection = connect_read_only(path)
    try:
        with translate_db_errors(path):
            tasks = {row[0] for row in connection.execute("SELECT DISTINCT task FROM items WHERE task IS NOT NULL")}
            tasks |= {ledger.ValueUpdate(*row).task for row in connection.execute(ledger.ACTIVE_UPDATES)}
    finally:
        connection.close()
    suites = {task.partition("/")[0] for task in tasks}
    for patterns, names in ((filters.tasks, tasks), (filters.suites, suites), (filters.exclude, tasks | suites)):
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                yield pattern, sorted(names)


def import_pack_file(path: BankLocation, file: Path, embedder: Embedder, allow_modified: bool = False) -> ImportResult:
    """Add the pack in a file to a bank. A changed pack is an error unless `allow_modified`."""
    return import_pack(path, read_pack(file, allow_modified), embedder)


def import_pack(path: BankLocation, pack: MemoryPack, embedder: Embedder) -> ImportResult:
    """Add a pack to a bank in one transaction; items that the bank already has or has revoked are skipped."""
    vectors = quantize_vectors(embedder.embed([embedding_text(packed.item) for packed in pack.items]))
    path = parse_location(path)
    connection = open_or_create(path)

    def store_pack() -> ImportResult:
        claim_embedder(connection, path, embedder)
        revoked_ids = {row[0] for row in connection.execute("SELECT id FROM revoked_ids")}
        existing_ids = {row[0] for row in connection.execute("SELECT id FROM items")} | revoked_ids
        new_items = [
            (packed, vector)
            for packed, vector in zip(pack.items, vectors, strict=True)
            if not existing_ids & {packed.item.id, CANDIDATE_PREFIX + packed.item.candidate}
        ]
        for packed, vector in new_items:
            store_item(connection, packed.run, packed.item, vector, pack.sha256)
        archived_count = import_merges(connection, pack.merges, [packed.item.id for packed, _ in new_items])
        updates = [update for update in pack.updates if not revoked_ids & {update.memory_id, update.item}]
        update_count = ledger.write_updates(connection, updates)
        connection.execute("INSERT INTO packs VALUES (?, ?) ON CONFLICT DO NOTHING", (pack.sha256, format_header(pack.header)))
        for run in pack.header.runs:
            metadata = run.model_dump(exclude={"run", "items", "updates"})
            provenance.store_metadata(connection, run.run, provenance.RunMetadata(**metadata))
        return ImportResult(len(new_items), update_count, archived_count)

    try:
        with translate_db_errors(path):
            return connection.run_in_transaction(store_pack)
    finally:
        connection.close()


def import_merges(connection: Connection, merges: Iterable[PackedMerge], new_ids: Iterable[str]) -> int:
    """Let updates of merged items that are not in the bank count for their survivors; return how many new items were archived.

    This counts as a consolidation, which running runs do not see. A new item that the bank has already merged is archived, because its
    updates count for the survivor. The caller holds a transaction.
    """
    revoked_by_id = dict(connection.execute("SELECT id, revoked FROM items").fetchall())
    merged_ids = {merge.item for merge in ledger.load_merged_items(connection)}
    existing_ids = revoked_by_id.keys() | merged_ids
    new_merges = {
        merge.item: merge.survivor for merge in merges if merge.item not in existing_ids and revoked_by_id.get(merge.survivor) == 0
    }
    archived_ids = [id for id in new_ids if id in merged_ids]
    if new_merges or archived_ids:
        number = 1 + last_consolidation_number(connection)
        connection.executemany("INSERT INTO merged_items VALUES (?, ?, ?)", [(*merge, number) for merge in new_merges.items()])
        connection.executemany("UPDATE items SET archived_by = ? WHERE id = ?", [(number, id) for id in archived_ids])
        survivors = ledger.load_survivors(connection)
        ledger.recompute_values(connection, sorted({*new_merges, *(survivors[item] for item in new_merges)}))
        record_consolidation(connection, number, {"imported": {"merged": list(new_merges.items()), "archived": archived_ids}})
    return len(archived_ids)
