"""Takes back what should not have been learned: a kernel found to cheat, what was made from it, and the values it earned."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from evokernel.core.bank_uri import BankLocation, parse_location
from evokernel.core.errors import UserError
from evokernel.core.run import Run
from evokernel.memory import ledger
from evokernel.memory.bank import CANDIDATE
from evokernel.memory.consolidate import bring_back
from evokernel.memory.distill import note_id
from evokernel.memory.schema import connect_to_change, trouble
from evokernel.memory.tables import Connection, transaction

MADE_SAME = """SELECT id FROM items WHERE kind IN ('trace', 'experience')
    AND ((candidate = :candidate AND candidate <> '') OR (code = :code AND code <> '')) ORDER BY seq"""


class Revocation(NamedTuple):
    """What a revocation took with it, or would."""

    attempts: tuple[str, ...]
    """All that are revoked now because of it, as `run:task/n`: those named, copies of their code, what was refined from any of them."""
    items: tuple[str, ...]
    """Never shown again, and not revoked before."""
    updates: int
    """Rows of the ledger that no longer count."""
    recomputed: int
    """Items whose values changed for it."""
    shown_to: tuple[str, ...] = ()
    """Attempts that are not revoked, but saw one that is."""
    shown_and_correct: tuple[str, ...] = ()
    """Those of them that gave a correct kernel."""
    unmarked: tuple[str, ...] = ()
    """Runs with revoked attempts whose folder could not be found, so that their reports still count them."""


class Undo(Exception):
    """Leaves a transaction without a trace of it."""


def revoke(
    path: BankLocation,
    *targets: str,
    candidate: str = "",
    also_shown: bool = False,
    dry_run: bool = False,
    folders: Sequence[Path] = (),
) -> Revocation:
    """Revokes attempts (`run:task/n`, `run/task/n`, or `task/n` where only one run has it), items by their id, or a candidate's code.

    With an attempt go its trace and note, attempts of the same code in any run, every attempt refined from one of these, the updates
    all of them earned, those about them, and those of later attempts that were held against one of them as the best. Run folders are
    marked where the bank knows them or `folders` names them. Runs under way see it when they are resumed. Asking again is harmless,
    and takes what has been made from the kernel since.
    """
    path = parse_location(path)
    connection = connect_to_change(path)
    done = Revocation((), (), 0, 0)
    try:
        with trouble(path):
            known = where_runs_are(connection, folders)
        with trouble(path), suppress(Undo), transaction(connection):
            named = [resolve(connection, path, target) for target in targets] + with_code(connection, path, candidate)
            roots = [id for id in named if is_attempt(connection, id)]
            gone = descent(connection, roots)
            if also_shown:
                gone = descent(connection, [*roots, *viewers(connection, gone, known).correct])
            done = take_back(connection, gone, [id for id in named if id not in roots])
            seen = viewers(connection, gone, known)
            done = done._replace(shown_to=seen.all, shown_and_correct=seen.correct)
            if dry_run:
                raise Undo
            refused = [(CANDIDATE + id,) for id in codes(connection, roots)]
            connection.executemany("INSERT INTO revoked VALUES (?) ON CONFLICT DO NOTHING", refused)
    finally:
        connection.close()
    return done._replace(unmarked=mark(done.attempts, known, dry_run))


def take_back(connection: Connection, attempts: Sequence[str], items: Sequence[str]) -> Revocation:
    """Marks items and rows, and computes the values again that they had changed."""
    gone = [*items, *(name for trace in attempts for name in (trace, note_id(trace)))]
    connection.executemany("INSERT INTO revoked VALUES (?) ON CONFLICT DO NOTHING", [(name,) for name in gone])
    fresh = [id for id in gone if connection.execute("UPDATE items SET revoked = 1 WHERE id = ? AND revoked = 0", (id,)).rowcount]
    named = [link.item for link in ledger.links(connection) if link.survivor in set(fresh) and link.item not in set(gone)]
    bring_back(connection, named)  # what a revoked kernel stood for stands for itself
    touched: list[str] = []

    def withdraw(where: str, *values: str) -> None:
        rows = connection.execute(f"UPDATE ledger SET revoked = 1 WHERE {where} AND revoked = 0 RETURNING item", values)
        touched.extend(row[0] for row in rows.fetchall())

    for trace in attempts:
        run, _, attempt = trace.partition(":")
        withdraw("run = ? AND attempt = ?", run, attempt)
        withdraw("item IN (?, ?)", trace, note_id(trace))
    for trace in held_against(connection, set(attempts)):
        run, _, attempt = trace.partition(":")
        withdraw("run = ? AND attempt = ? AND stage = 'refine'", run, attempt)
    roots = ledger.survivors(connection)
    changed = {roots.get(item, item) for item in touched}
    ledger.recompute(connection, sorted(changed | set(named)))
    return Revocation(tuple(attempts), tuple(fresh), len(touched), len(changed))


def held_against(connection: Connection, gone: Collection[str]) -> list[str]:
    """Correct refinements whose reward says how they compare with a revoked kernel, the fastest of their task and run until then."""
    found = []
    for run, task in sorted({(trace.partition(":")[0], trace.partition(":")[2].rpartition("/")[0]) for trace in gone}):
        rows = connection.execute(
            "SELECT id, latency_us FROM items WHERE run = ? AND task = ? AND kind = 'experience' AND feasible = 1",
            (run, task),
        )
        made = [(id.removesuffix("/note"), latency) for id, latency in rows]
        best, fastest = "", float("inf")
        for trace, latency in sorted(made, key=lambda one: int(one[0].rpartition("/")[2])):
            if best in gone and trace not in gone:
                found.append(trace)
            if latency is not None and latency < fastest:
                best, fastest = trace, latency
    return found


class Viewers(NamedTuple):
    """Attempts that were shown something."""

    all: tuple[str, ...]
    correct: tuple[str, ...]


def viewers(connection: Connection, gone: Collection[str], known: dict[str, Run]) -> Viewers:
    """Who was shown a revoked kernel or its note and is not revoked itself, as far as ledger and journals at hand can tell."""
    names = {name for trace in gone for name in (trace, note_id(trace))}
    saw: dict[str, bool | None] = {}
    for name in sorted(names):
        rows = connection.execute("SELECT DISTINCT run || ':' || attempt FROM ledger WHERE item = ?", (name,))
        saw.update({row[0]: None for row in rows if row[0] not in gone})
    for run in known.values():
        with suppress(UserError):  # a damaged journal of some run is no reason to keep a cheat
            for attempt in run.journal.read():
                if attempt.memory_id not in gone and any(ref.id in names for ref in attempt.shown_items):
                    saw[attempt.memory_id] = attempt.outcome.feasible
    for trace, feasible in saw.items():
        if feasible is None:
            row = connection.execute("SELECT feasible FROM items WHERE id = ?", (note_id(trace),)).fetchone()
            saw[trace] = bool(row and row[0])
    return Viewers(tuple(sorted(saw)), tuple(sorted(trace for trace, feasible in saw.items() if feasible)))


def where_runs_are(connection: Connection, folders: Iterable[Path]) -> dict[str, Run]:
    """Runs by id: in the folders the bank remembers, where they are still there, and in those named, where they must be."""
    found: dict[str, Run] = {}
    for id, folder in connection.execute("SELECT id, folder FROM runs WHERE folder <> '' ORDER BY id").fetchall():
        with suppress(UserError):
            run = Run.open(Path(folder))
            if run.config.id == id:
                found[id] = run
    for run in map(Run.open, folders):
        found[run.config.id] = run
    return found


def mark(attempts: Iterable[str], known: dict[str, Run], dry_run: bool) -> tuple[str, ...]:
    """Tells the run folders; gives the runs that could not be told."""
    by_run: dict[str, list[str]] = {}
    for trace in attempts:
        run, _, attempt = trace.partition(":")
        by_run.setdefault(run, []).append(attempt)
    for run in by_run.keys() & known.keys():
        if not dry_run:
            known[run].revoke(by_run[run])
    return tuple(sorted(by_run.keys() - known.keys()))


def resolve(connection: Connection, path: BankLocation, target: str) -> str:
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


def with_code(connection: Connection, path: BankLocation, candidate: str) -> list[str]:
    """Attempts that wrote a candidate, given by the id that verify, export and `memory show` tell."""
    if not candidate:
        return []
    rows = connection.execute(MADE_SAME, {"candidate": candidate, "code": ""})
    if not (found := list(dict.fromkeys(row[0].removesuffix("/note") for row in rows))):
        raise UserError(f"memory bank {path} knows no kernel '{candidate}': evokernel verify --json and memory show tell a kernel's id")
    return found


def codes(connection: Connection, attempts: Sequence[str]) -> list[str]:
    """Ids of the candidates that attempts wrote."""
    query = "SELECT candidate FROM items WHERE id = ?"
    rows = [connection.execute(query, (note_id(trace),)).fetchone() for trace in attempts]
    return sorted({row[0] for row in rows if row and row[0]})


def is_attempt(connection: Connection, id: str) -> bool:
    """Whether an id names an attempt rather than one item: every attempt leaves a note."""
    return connection.execute("SELECT 1 FROM items WHERE id = ?", (note_id(id),)).fetchone() is not None


def descent(connection: Connection, roots: Sequence[str]) -> list[str]:
    """Attempts, others with the same code, and all that were refined from any of these, directly or not."""
    found = list(dict.fromkeys(name for root in roots for name in (root, *copies(connection, root))))
    for parent in found:
        rows = connection.execute("SELECT id FROM items WHERE parent = ? ORDER BY seq", (parent,))
        traces = [id.removesuffix("/note") for (id,) in rows]
        found += [id for id in dict.fromkeys(traces) if id not in found]
    return found


def copies(connection: Connection, trace: str) -> list[str]:
    """Attempts of any run that wrote the same code: what one of them did, the others do."""
    asked = "SELECT candidate, code FROM items WHERE id IN (?, ?) ORDER BY kind DESC"
    candidate, code = connection.execute(asked, (trace, note_id(trace))).fetchone()
    if not candidate and not code:
        return []
    rows = connection.execute(MADE_SAME, {"candidate": candidate, "code": code})
    return list(dict.fromkeys(id.removesuffix("/note") for (id,) in rows))
