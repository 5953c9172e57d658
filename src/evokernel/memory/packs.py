"""Memory packs: a bank, or a part of it, as JSON lines that another bank can take in."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from evokernel.core.errors import UserError
from evokernel.core.protocols import Embedder
from evokernel.core.records import MemoryItem, Record
from evokernel.memory import ledger
from evokernel.memory.bank import claim, put, what_is_embedded
from evokernel.memory.index import grid
from evokernel.memory.schema import connect, connect_to_read, transaction, trouble

FORMAT = 1


class Line(Record):
    """One line of a pack: its format, an item with the run that wrote it, or one update of a value."""

    evokernel_memory: int | None = None
    item: MemoryItem | None = None
    run: str = ""
    update: ledger.Update | None = None


class Moved(NamedTuple):
    """What an export wrote or an import added."""

    items: int
    updates: int


def export(path: Path, file: Path, *, backend: str = "", kinds: Collection[str] = (), without_tasks: Collection[str] = ()) -> Moved:
    """Writes a pack: items, and the updates their values are made of. Nothing of `without_tasks`, nor what was learned on them."""
    connection = connect_to_read(path)
    items = updates = 0
    new = file.with_name(f".{file.name}.new")
    try:
        with trouble(path), new.open("w", encoding="utf-8") as out:
            out.write(json.dumps({"evokernel_memory": FORMAT}) + "\n")
            exported = set()
            rows = connection.execute(
                "SELECT id, run, kind, task, record FROM items WHERE revoked = 0 AND ? IN ('', backend) ORDER BY seq", (backend,)
            )
            for id, run, kind, task, record in rows:
                if (kind in kinds or not kinds) and task not in without_tasks:
                    out.write(f'{{"item": {record}, "run": {json.dumps(run)}}}\n')
                    exported.add(id)
                    items += 1
            columns = ", ".join(ledger.Update._fields)
            for row in connection.execute(f"SELECT {columns} FROM ledger WHERE revoked = 0 ORDER BY seq"):
                update = ledger.Update(*row)
                if update.item in exported and update.attempt.rpartition("/")[0] not in without_tasks:
                    out.write(json.dumps({"update": update._asdict()}) + "\n")
                    updates += 1
        os.replace(new, file)
    except OSError as error:
        with suppress(OSError):  # on a read-only disk there is nothing to take away
            new.unlink()
        raise UserError(f"cannot write {file}: {error.strerror}; choose another place") from error
    finally:
        connection.close()
    return Moved(items, updates)


def import_pack(path: Path, file: Path, embedder: Embedder) -> Moved:
    """Adds a pack to a bank, all of it or nothing; what the bank already has, or has revoked, is left alone."""
    lines = list(read(file))
    items = [(line.item, line.run) for line in lines if line.item]
    vectors = grid(embedder.embed([what_is_embedded(item) for item, _ in items]))
    connection = connect(path)
    try:
        with trouble(path), transaction(connection):
            claim(connection, path, embedder.id)
            revoked = {row[0] for row in connection.execute("SELECT id FROM revoked")}
            known = {row[0] for row in connection.execute("SELECT id FROM items")} | revoked
            news = [(item, run, vector) for (item, run), vector in zip(items, vectors, strict=True) if item.id not in known]
            for item, run, vector in news:
                put(connection, run, item, vector)
            updates = [line.update for line in lines if line.update and f"{line.update.run}:{line.update.attempt}" not in revoked]
            learned = sum(ledger.write(connection, update) for update in updates)
    finally:
        connection.close()
    return Moved(len(news), learned)


def read(file: Path) -> Iterator[Line]:
    """The lines of a pack, checked; the first wrong one is named."""
    try:
        texts = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read memory pack {file}: {error}") from error
    for number, text in enumerate(texts, start=1):
        try:
            line = Line.model_validate_json(text)
        except ValidationError as error:
            raise UserError(f"{file}, line {number} is not part of a memory pack: {error.errors()[0]['msg'].lower()}") from error
        if number == 1 and line.evokernel_memory != FORMAT:
            raise UserError(f"{file} is not a memory pack of format {FORMAT}: make one with evokernel memory export")
        yield line
