"""Memory packs: a bank, or a part of it, that another bank can take in, with its values to the bit."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, NamedTuple

from evokernel.core.bank_uri import BankLocation, parse_location
from evokernel.core.errors import UserError
from evokernel.core.protocols import Embedder
from evokernel.core.records import MemoryItem
from evokernel.memory import ledger, provenance
from evokernel.memory.bank import CANDIDATE, claim, parse, put, what_is_embedded
from evokernel.memory.consolidate import latest, note
from evokernel.memory.index import grid
from evokernel.memory.pack_file import FORMAT, PLAIN, Filters, Header, Merged, Pack, described, first_line, read
from evokernel.memory.schema import connect, connect_to_read, trouble
from evokernel.memory.tables import Connection, version_of


class Moved(NamedTuple):
    """What an import added."""

    items: int
    updates: int
    aside: int = 0
    """Those of the items that the bank knew already as merged into others: they stay put aside."""


class Leaving(NamedTuple):
    """What stays behind besides: all of some tasks, some items, and whatever was learned on these."""

    tasks: frozenset[str] = frozenset()
    items: frozenset[str] = frozenset()


ALL, NOTHING = Filters(), Leaving()


def export(path: BankLocation, file: Path, filters: Filters = ALL, leaving: Leaving = NOTHING) -> Header:
    """Writes a pack: items, and the updates their values are made of, without what was learned on tasks that are not in it."""
    path = parse_location(path)
    connection = connect_to_read(path)
    new = file.with_name(f".{file.name}.new")
    try:
        with trouble(path), tempfile.TemporaryFile() as body:
            connection.begin_reading()  # items and ledger of one moment, whoever writes meanwhile
            header = write_body(connection, path, body, filters, leaving)
            body.seek(0)
            with new.open("wb") as out:
                out.write(first_line(header).encode())
                shutil.copyfileobj(body, out)
        os.replace(new, file)
    except OSError as error:
        with suppress(OSError):  # on a read-only disk there is nothing to take away
            new.unlink()
        raise UserError(f"cannot write {file}: {error.strerror}; choose another place") from error
    finally:
        connection.close()
    return header


def write_body(connection: Connection, path: BankLocation, body: IO[bytes], filters: Filters, leaving: Leaving) -> Header:
    """Every line but the first, and what the first is to say."""
    digest = hashlib.sha256()

    def write(line: str) -> None:
        digest.update(f"{line}\n".encode())
        body.write(f"{line}\n".encode())

    items: dict[str, MemoryItem] = {}
    wrote, learned = Counter[str](), Counter[str]()
    shown = "revoked = 0 AND archived = 0" if version_of(connection) >= 5 else "revoked = 0"
    rows = connection.execute(
        f"SELECT id, run, kind, task, record FROM items WHERE {shown} AND ? IN ('', backend) ORDER BY seq", (filters.backend,)
    )
    for id, run, kind, task, record in rows:
        if id not in leaving.items and (kind in filters.kinds or not filters.kinds) and (task is None or stays(task, filters, leaving)):
            items[id] = parse(path, record)
            wrote[run] += 1
            write(f'{{"item": {record}, "run": {json.dumps(run)}}}')
    roots = {item: root for item, root in ledger.survivors(connection).items() if root in items}
    for item, root in roots.items():
        write(json.dumps({"merged": {"item": item, "survivor": root}}))
    for row in connection.execute(ledger.LIVE_UPDATES):
        update = ledger.Update(*row)
        if roots.get(update.item, update.item) in items and stays(update.task, filters, leaving) and update.trace not in leaving.items:
            learned[update.run] += 1
            write(json.dumps({"update": update._asdict()}))
    known = provenance.all_known(connection)
    runs = tuple(
        provenance.Origin(run=run, items=wrote[run], updates=learned[run], **known.get(run, provenance.Facts()).model_dump())
        for run in sorted((wrote.keys() | learned.keys()) - {""})
    )
    found = {**described(items.values()), "evokernel_memory": FORMAT if roots else PLAIN}
    return Header.model_validate({**found, "sha256": digest.hexdigest(), "updates": learned.total(), "runs": runs, "filters": filters})


def stays(task: str, filters: Filters, leaving: Leaving = NOTHING) -> bool:
    """Whether what came from a task goes into a pack."""
    everything = not (filters.tasks or filters.suites)
    kept = everything or any(fnmatchcase(task, pattern) for pattern in filters.tasks) or any(is_of(task, suite) for suite in filters.suites)
    return kept and not any(fnmatchcase(task, name) or is_of(task, name) for name in filters.without) and task not in leaving.tasks


def is_of(task: str, suite: str) -> bool:
    """Whether a task is of a suite, or of one that fits a pattern."""
    return fnmatchcase(task.partition("/")[0], suite)


def unmatched(path: BankLocation, filters: Filters) -> Iterator[tuple[str, list[str]]]:
    """What the filters name that a bank knows nothing of, with the names it knows."""
    path = parse_location(path)
    connection = connect_to_read(path)
    try:
        with trouble(path):
            tasks = {row[0] for row in connection.execute("SELECT DISTINCT task FROM items WHERE task IS NOT NULL")}
            tasks |= {ledger.Update(*row).task for row in connection.execute(ledger.LIVE_UPDATES)}
    finally:
        connection.close()
    suites = {task.partition("/")[0] for task in tasks}
    for asked, known in ((filters.tasks, tasks), (filters.suites, suites), (filters.without, tasks | suites)):
        for name in asked:
            if not any(fnmatchcase(one, name) for one in known):
                yield name, sorted(known)


def import_pack(path: BankLocation, file: Path, embedder: Embedder, unsigned: bool = False) -> Moved:
    """Adds the pack in a file to a bank; one that is not what was exported is refused, unless `unsigned`."""
    return take(path, read(file, unsigned), embedder)


def take(path: BankLocation, pack: Pack, embedder: Embedder) -> Moved:
    """Adds a pack to a bank, all of it or nothing; what the bank already has, or has revoked, is left alone."""
    vectors = grid(embedder.embed([what_is_embedded(held.item) for held in pack.items]))
    path = parse_location(path)
    connection = connect(path)

    def write() -> Moved:
        claim(connection, path, embedder)
        revoked = {row[0] for row in connection.execute("SELECT id FROM revoked")}
        known = {row[0] for row in connection.execute("SELECT id FROM items")} | revoked
        given = zip(pack.items, vectors, strict=True)
        news = [(held, vector) for held, vector in given if not known & {held.item.id, CANDIDATE + held.item.candidate}]
        for held, vector in news:
            put(connection, held.run, held.item, vector, pack.sha256)
        aside = take_merges(connection, pack.merged, [held.item.id for held, _ in news])
        learned = ledger.write(connection, [update for update in pack.updates if not revoked & {update.trace, update.item}])
        connection.execute("INSERT INTO packs VALUES (?, ?) ON CONFLICT DO NOTHING", (pack.sha256, first_line(pack.header)))
        for origin in pack.header.runs:
            noted = origin.model_dump(exclude={"run", "items", "updates"})
            provenance.keep(connection, origin.run, provenance.Facts(**noted))
        return Moved(len(news), learned, aside)

    try:
        with trouble(path):
            return connection.written(write)
    finally:
        connection.close()


def take_merges(connection: Connection, merges: Iterable[Merged], news: Iterable[str]) -> int:
    """Lets rows about items that are not here count for those that stand for them; gives how many of the new items were such.

    As a consolidation of its own, of which runs under way see nothing. A new item that another stands for already is put aside: that is
    what was decided about it, and its rows do count for the other. Inside the caller's transaction.
    """
    there = dict(connection.execute("SELECT id, revoked FROM items").fetchall())
    known = {link.item for link in ledger.links(connection)}
    taken = there.keys() | known
    links = {one.item: one.survivor for one in merges if one.item not in taken and there.get(one.survivor) == 0}
    aside = [id for id in news if id in known]
    if links or aside:
        number = 1 + latest(connection)
        connection.executemany("INSERT INTO merged VALUES (?, ?, ?)", [(*link, number) for link in links.items()])
        connection.executemany("UPDATE items SET archived = ? WHERE id = ?", [(number, id) for id in aside])
        roots = ledger.survivors(connection)
        ledger.recompute(connection, sorted({*links, *(roots[item] for item in links)}))
        note(connection, number, {"imported": {"merged": list(links.items()), "archived": aside}})
    return len(aside)
