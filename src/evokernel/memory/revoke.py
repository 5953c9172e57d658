"""Revoke what a bank should not have learned: a kernel that cheated, everything derived from it, and the values that they earned."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from evokernel.core.bank_uri import BankLocation, parse_location
from evokernel.core.errors import UserError
from evokernel.core.memory_ids import make_note_id, make_trace_id, split_trace_id, task_of_attempt, to_trace_id
from evokernel.core.run import Run
from evokernel.memory import ledger
from evokernel.memory.bank import CANDIDATE_PREFIX
from evokernel.memory.consolidate import unarchive_items
from evokernel.memory.schema import connect_existing, translate_db_errors
from evokernel.memory.tables import Connection, Rollback, write_transaction

SAME_CODE_QUERY = """SELECT id FROM items WHERE kind IN ('trace', 'experience', 'practice')
    AND ((candidate = :candidate AND candidate <> '') OR (code_sha256 = :code AND code_sha256 <> '')) ORDER BY seq"""


class Revocation(NamedTuple):
    """The effects of a revocation, applied or only planned."""

    attempts: tuple[str, ...]
    """All attempts that it revokes, as `run:task/n`: the named ones, copies of their code, and everything refined from any of these."""
    items: tuple[str, ...]
    """Items that are newly revoked and never shown again."""
    updates: int
    """Ledger rows that no longer count."""
    recomputed_values: int
    """Items whose values changed."""
    shown_to: tuple[str, ...] = ()
    """Attempts that saw a revoked item but are not revoked themselves."""
    shown_and_correct: tuple[str, ...] = ()
    """Those of them with a correct kernel."""
    unmarked_runs: tuple[str, ...] = ()
    """Runs with revoked attempts whose folder was not found, so that their reports still count these attempts."""


def revoke(
    path: BankLocation,
    *targets: str,
    candidate: str = "",
    include_influenced: bool = False,
    dry_run: bool = False,
    folders: Sequence[Path] = (),
) -> Revocation:
    """Revoke attempts (`run:task/n`, `run/task/n`, or `task/n` if only one run has it), items by id, or a candidate's code.

    Revoking an attempt also revokes its trace and note, attempts with the same code in any run, every attempt refined from one of these,
    the updates that all of them earned, the updates about them, and those of later attempts that were rewarded relative to one of them as
    the best kernel. Run folders that the bank or `folders` names are marked. Runs in progress see the revocation when they are resumed.
    Repeating a revocation is harmless, and also revokes what has been derived from the kernel since.
    """
    path = parse_location(path)
    connection = connect_existing(path)
    result = Revocation((), (), 0, 0)
    try:
        with translate_db_errors(path):
            runs = find_run_folders(connection, folders)
        with translate_db_errors(path), suppress(Rollback), write_transaction(connection):
            ids = [resolve_target(connection, path, target) for target in targets] + find_attempts_with_code(connection, path, candidate)
            roots = [id for id in ids if is_attempt(connection, id)]
            attempts = find_descendants(connection, roots)
            if include_influenced:
                attempts = find_descendants(connection, [*roots, *find_exposed_attempts(connection, attempts, runs).correct])
            result = revoke_items(connection, attempts, [id for id in ids if id not in roots])
            exposed = find_exposed_attempts(connection, attempts, runs)
            result = result._replace(shown_to=exposed.all, shown_and_correct=exposed.correct)
            if dry_run:
                raise Rollback
            candidates = [(CANDIDATE_PREFIX + id,) for id in candidate_ids(connection, roots)]
            connection.executemany("INSERT INTO revoked_ids VALUES (?) ON CONFLICT DO NOTHING", candidates)
    finally:
        connection.close()
    return result._replace(unmarked_runs=mark_run_folders(result.attempts, runs, dry_run))


def revoke_items(connection: Connection, attempts: Sequence[str], items: Sequence[str]) -> Revocation:
    """Mark items and ledger rows as revoked, and recompute the values that they had changed."""
    ids = [*items, *(name for trace in attempts for name in (trace, make_note_id(trace)))]
    connection.executemany("INSERT INTO revoked_ids VALUES (?) ON CONFLICT DO NOTHING", [(id,) for id in ids])
    new_ids = [id for id in ids if connection.execute("UPDATE items SET revoked = 1 WHERE id = ? AND revoked = 0", (id,)).rowcount]
    orphans = [
        merge.item for merge in ledger.load_merged_items(connection) if merge.survivor in set(new_ids) and merge.item not in set(ids)
    ]
    unarchive_items(connection, orphans)  # items merged into a revoked kernel become active again
    updated_items: list[str] = []

    def revoke_rows(condition: str, *values: str) -> None:
        rows = connection.execute(f"UPDATE ledger SET revoked = 1 WHERE {condition} AND revoked = 0 RETURNING item", values)
        updated_items.extend(row[0] for row in rows.fetchall())

    for trace in attempts:
        run, attempt = split_trace_id(trace)
        revoke_rows("run = ? AND attempt = ?", run, attempt)
        revoke_rows("item IN (?, ?)", trace, make_note_id(trace))
    for trace in find_rewards_against(connection, set(attempts)):
        run, attempt = split_trace_id(trace)
        revoke_rows("run = ? AND attempt = ? AND stage = 'refine'", run, attempt)
    survivors = ledger.load_survivors(connection)
    affected_items = {survivors.get(item, item) for item in updated_items}
    ledger.recompute_values(connection, sorted(affected_items | set(orphans)))
    return Revocation(tuple(attempts), tuple(new_ids), len(updated_items), len(affected_items))


def find_rewards_against(connection: Connection, revoked_attempts: Collection[str]) -> list[str]:
    """Correct refinements that were rewarded relative to a revoked kernel, which was then the fastest of its task and run."""
    attempts = []
    for run, task in sorted({(run, task_of_attempt(attempt)) for run, attempt in map(split_trace_id, revoked_attempts)}):
        rows = connection.execute(
            "SELECT id, latency_us FROM items WHERE run = ? AND task = ? AND kind = 'experience' AND feasible = 1",
            (run, task),
        )
        latencies = [(to_trace_id(id), latency) for id, latency in rows]
        best, best_latency = "", float("inf")
        for trace, latency in sorted(latencies, key=lambda pair: int(pair[0].rpartition("/")[2])):
            if best in revoked_attempts and trace not in revoked_attempts:
                attempts.append(trace)
            if latency is not None and latency < best_latency:
                best, best_latency = trace, latency
    return attempts


class ExposedAttempts(NamedTuple):
    """Attempts whose context contained a revoked item."""

    all: tuple[str, ...]
    correct: tuple[str, ...]


def find_exposed_attempts(connection: Connection, revoked_attempts: Collection[str], runs: dict[str, Run]) -> ExposedAttempts:
    """Attempts that saw a revoked kernel or its note and are not revoked, according to the ledger and the available journals."""
    ids = {name for trace in revoked_attempts for name in (trace, make_note_id(trace))}
    exposed: dict[str, bool | None] = {}
    for id in sorted(ids):
        rows = connection.execute("SELECT DISTINCT run || ':' || attempt FROM ledger WHERE item = ?", (id,))
        exposed.update({row[0]: None for row in rows if row[0] not in revoked_attempts})
    for run in runs.values():
        with suppress(UserError):  # a damaged journal of one run must not prevent the revocation
            for attempt in run.journal.read():
                if attempt.memory_id not in revoked_attempts and any(ref.id in ids for ref in attempt.shown_items):
                    exposed[attempt.memory_id] = attempt.outcome.feasible
    for trace, feasible in exposed.items():
        if feasible is None:
            row = connection.execute("SELECT feasible FROM items WHERE id = ?", (make_note_id(trace),)).fetchone()
            exposed[trace] = bool(row and row[0])
    return ExposedAttempts(tuple(sorted(exposed)), tuple(sorted(trace for trace, feasible in exposed.items() if feasible)))


def find_run_folders(connection: Connection, folders: Iterable[Path]) -> dict[str, Run]:
    """Runs by id: from the folders that the bank stores, if they still exist, and from `folders`, which must exist."""
    runs: dict[str, Run] = {}
    for id, folder in connection.execute("SELECT id, folder FROM runs WHERE folder <> '' ORDER BY id").fetchall():
        with suppress(UserError):
            run = Run.open(Path(folder))
            if run.config.id == id:
                runs[id] = run
    for run in map(Run.open, folders):
        runs[run.config.id] = run
    return runs


def mark_run_folders(attempts: Iterable[str], runs: dict[str, Run], dry_run: bool) -> tuple[str, ...]:
    """Record the revocation in the run folders; return the ids of runs whose folder is unknown."""
    attempts_by_run: dict[str, list[str]] = {}
    for trace in attempts:
        run, attempt = split_trace_id(trace)
        attempts_by_run.setdefault(run, []).append(attempt)
    for run in attempts_by_run.keys() & runs.keys():
        if not dry_run:
            runs[run].revoke(attempts_by_run[run])
    return tuple(sorted(attempts_by_run.keys() - runs.keys()))


def resolve_target(connection: Connection, path: BankLocation, target: str) -> str:
    """The item id that a target names: `run:task/n` for an attempt."""
    run, _, rest = target.partition("/")
    for id in (target, make_trace_id(run, rest)):
        if connection.execute("SELECT 1 FROM items WHERE id IN (?, ?)", (id, make_note_id(id))).fetchone():
            return id
    runs = connection.execute(
        "SELECT DISTINCT run FROM items WHERE id IN (run || ':' || ?, run || ':' || ?) ORDER BY run", (target, make_note_id(target))
    ).fetchall()
    if not runs:
        raise UserError(f"memory bank {path} has no item or attempt '{target}': list the ids with evokernel memory list")
    if len(runs) > 1:
        raise UserError(f"several runs have an attempt '{target}': name one of {', '.join(make_trace_id(row[0], target) for row in runs)}")
    return make_trace_id(runs[0][0], target)


def find_attempts_with_code(connection: Connection, path: BankLocation, candidate: str) -> list[str]:
    """Attempts that wrote a candidate, given by the id that verify, export and `memory show` print."""
    if not candidate:
        return []
    rows = connection.execute(SAME_CODE_QUERY, {"candidate": candidate, "code": ""})
    attempts = list(dict.fromkeys(to_trace_id(row[0]) for row in rows))
    if not attempts:
        raise UserError(f"memory bank {path} has no kernel '{candidate}': evokernel verify --json and memory show print a kernel's id")
    return attempts


def candidate_ids(connection: Connection, attempts: Sequence[str]) -> list[str]:
    """Ids of the candidates that attempts wrote."""
    query = "SELECT candidate FROM items WHERE id = ?"
    rows = [connection.execute(query, (make_note_id(trace),)).fetchone() for trace in attempts]
    return sorted({row[0] for row in rows if row and row[0]})


def is_attempt(connection: Connection, id: str) -> bool:
    """Whether an id names an attempt rather than a single item: every attempt has a note."""
    return connection.execute("SELECT 1 FROM items WHERE id = ?", (make_note_id(id),)).fetchone() is not None


def find_descendants(connection: Connection, roots: Sequence[str]) -> list[str]:
    """The attempts, others with the same code, and all attempts refined from any of these, directly or indirectly."""
    attempts = list(dict.fromkeys(name for root in roots for name in (root, *find_copies(connection, root))))
    for parent in attempts:
        rows = connection.execute("SELECT id FROM items WHERE parent = ? ORDER BY seq", (parent,))
        children = [to_trace_id(id) for (id,) in rows]
        attempts += [id for id in dict.fromkeys(children) if id not in attempts]
    return attempts


def find_copies(connection: Connection, trace: str) -> list[str]:
    """Attempts of any run with the same code: if one of them cheats, all of them do."""
    query = "SELECT candidate, code_sha256 FROM items WHERE id IN (?, ?) ORDER BY kind DESC"
    candidate, code_sha256 = connection.execute(query, (trace, make_note_id(trace))).fetchone()
    if not candidate and not code_sha256:
        return []
    rows = connection.execute(SAME_CODE_QUERY, {"candidate": candidate, "code": code_sha256})
    return list(dict.fromkeys(to_trace_id(id) for (id,) in rows))
