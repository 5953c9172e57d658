"""Takes back what should not have been learned: a kernel found to cheat, what was made from it, and the values it earned."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import NamedTuple

from evokernel.core.errors import UserError
from evokernel.memory import ledger
from evokernel.memory.distill import note_id
from evokernel.memory.schema import connect, transaction, trouble


class Revocation(NamedTuple):
    """What a revocation took with it."""

    items: tuple[str, ...]
    """Never shown again."""
    updates: int
    """Rows of the ledger that no longer count."""
    recomputed: int
    """Items whose values changed for it."""


def revoke(path: Path, target: str) -> Revocation:
    """Revokes an attempt (`run:task/n`, `run/task/n`, or `task/n` where only one run has it) or a single item by its id.

    With an attempt go its trace and note, every attempt refined from it, and the value updates all of them earned. Runs under way
    see it when they are resumed. Asking again is harmless, and takes what has been made from the kernel since.
    """
    if not path.is_file():
        raise UserError(f"there is no memory bank at {path}: name one with --memory PATH")
    connection = connect(path)
    try:
        with trouble(path), transaction(connection):
            id = resolve(connection, path, target)
            attempts = descent(connection, id) if is_attempt(connection, id) else []
            gone = [name for trace in attempts for name in (trace, note_id(trace))] or [id]
            connection.executemany("INSERT OR IGNORE INTO revoked VALUES (?)", [(name,) for name in gone])
            fresh = [name for name in gone if connection.execute(*flag(name)).rowcount]
            touched: set[str] = set()
            updates = 0
            for run, _, attempt in (trace.partition(":") for trace in attempts):
                rows = connection.execute(
                    "UPDATE ledger SET revoked = 1 WHERE run = ? AND attempt = ? AND revoked = 0 RETURNING item", (run, attempt)
                ).fetchall()
                updates += len(rows)
                touched.update(row[0] for row in rows)
            ledger.recompute(connection, sorted(touched))
    finally:
        connection.close()
    return Revocation(tuple(fresh), updates, len(touched))


def flag(id: str) -> tuple[str, tuple[str]]:
    """The statement that marks an item."""
    return "UPDATE items SET revoked = 1 WHERE id = ? AND revoked = 0", (id,)


def resolve(connection: sqlite3.Connection, path: Path, target: str) -> str:
    """The id that is meant, as items are called: `run:task/n` for an attempt."""
    run, _, rest = target.partition("/")
    for id in (target, f"{run}:{rest}"):
        if connection.execute("SELECT 1 FROM items WHERE id IN (?, ?)", (id, note_id(id))).fetchone():
            return id
    runs = connection.execute(
        "SELECT DISTINCT run FROM items WHERE id IN (run || ':' || ?, run || ':' || ?) ORDER BY run", (target, note_id(target))
    ).fetchall()
    if not runs:
        raise UserError(f"memory bank {path} knows no item or attempt '{target}': evokernel memory list shows the ids")
    if len(runs) > 1:
        raise UserError(f"several runs attempted '{target}', say which: {', '.join(f'{found[0]}:{target}' for found in runs)}")
    return f"{runs[0][0]}:{target}"


def is_attempt(connection: sqlite3.Connection, id: str) -> bool:
    """Whether an id names an attempt rather than one item: every attempt leaves a note."""
    return connection.execute("SELECT 1 FROM items WHERE id = ?", (note_id(id),)).fetchone() is not None


def descent(connection: sqlite3.Connection, trace: str) -> list[str]:
    """An attempt and all that were refined from it, directly or not."""
    found = [trace]
    for parent in found:
        rows = connection.execute("SELECT id, kind FROM items WHERE parent = ? ORDER BY seq", (parent,))
        traces = [id.removesuffix("/note") if kind == "experience" else id for id, kind in rows]
        found += [id for id in dict.fromkeys(traces) if id not in found]
    return found
