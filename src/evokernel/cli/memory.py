"""`evokernel memory`: the bank, seen from outside a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli import consolidate, packs
from evokernel.cli.bank_options import KINDS, archive, bank_option, embedder_option, made, say
from evokernel.cli.output import draw, emit, json_option, pairs, tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evokernel.core.bank_uri import BankLocation
    from evokernel.memory.reader import Archive, Entry, Standing
    from evokernel.memory.revoke import Revocation


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Look into the memory bank, move it, revoke parts of it.

    \b
    Examples:
      evokernel memory stats
      evokernel memory list --kind trace --task starter/softmax
      evokernel memory search "online softmax with one pass"
      evokernel memory export pack.jsonl --backend cpp --held-out level2
      evokernel memory inspect pack.jsonl
      evokernel memory audit pack.jsonl --tasks level2
      evokernel memory import pack.jsonl --memory team.db
      evokernel memory revoke my-run:starter/softmax/3 --dry-run
      evokernel memory consolidate --dry-run
    """
    if ctx.invoked_subcommand is None:
        tell(ctx.get_help())


@command.command("list")
@bank_option
@click.option("--kind", type=click.Choice(KINDS), help="Only this kind.")
@click.option("--backend", default="", metavar="NAME", help="Only this backend.")
@click.option("--task", default="", metavar="ID", help="Only what came from this task.")
@click.option("--family", default="", metavar="NAME", help="Only this family of operators.")
@click.option("--run", "of_run", default="", metavar="ID", help="Only what this run wrote.")
@click.option("--revoked", is_flag=True, help="Show revoked items, too.")
@click.option("--archived", is_flag=True, help="Only what consolidation put aside.")
@click.option("--quarantined", is_flag=True, help="Only what is left of kernels whose code is not shown to anyone.")
@click.option("--limit", type=click.IntRange(1), default=50, metavar="N", help="At most so many, best first. [50]")
@json_option
def list_items(
    path: BankLocation,
    kind: str | None,
    backend: str,
    task: str,
    family: str,
    of_run: str,
    revoked: bool,
    archived: bool,
    quarantined: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Items with their values, the most valuable first.

    \b
    Example: evokernel memory list --kind practice --limit 10
    """
    with archive(path) as bank:
        asked = {"kind": kind or "", "backend": backend, "task": task, "family": family, "run": of_run}
        found = list(bank.entries(**asked, revoked=revoked or quarantined, archived=archived))
        found = [entry for entry in found if entry.quarantined or not quarantined]
        known = values(bank)
        rows = [row(entry, known) for entry in found]
    rows.sort(key=lambda one: -max((one[q] for q in ("q1", "q2") if one[q] is not None), default=float("-inf")))
    show_items(rows[:limit], as_json, len(rows))


@command.command("search")
@click.argument("query")
@bank_option
@embedder_option
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only this kind; may be repeated.")
@click.option("--backend", default="", metavar="NAME", help="Only this backend.")
@click.option("--limit", type=click.IntRange(1), default=10, metavar="N", help="How many. [10]")
@json_option
def search(query: str, path: BankLocation, embedder: str, kinds: tuple[Any, ...], backend: str, limit: int, as_json: bool) -> None:
    """The items nearest in meaning to QUERY, as a run would find them.

    \b
    Example: evokernel memory search "tile matmul for the cache" --kind practice
    """
    with archive(path) as bank:
        hits = bank.search(query, made(embedder), limit, kinds=kinds, backend=backend)
        known = values(bank)
        rows = [{**row(bank.get(hit.item.id), known), "similarity": float(hit.similarity)} for hit in hits]
    show_items(rows, as_json, len(rows))


@command.command("show")
@click.argument("id")
@bank_option
@json_option
def show(id: str, path: BankLocation, as_json: bool) -> None:
    """One item in full: words, code, and how it came to its value.

    \b
    Example: evokernel memory show cpp/online-softmax
    """
    with archive(path) as bank:
        entry, steps = bank.get(id), bank.history(id)
        facts = {**row(entry, values(bank)), "merged": bank.merged(id)}
    if as_json:
        emit({**facts, "item": entry.item.model_dump(mode="json"), "history": [step._asdict() for step in steps]})
        return
    item = entry.item
    labels = (
        "id",
        "kind",
        "backend",
        "task",
        "run",
        "source",
        "pack",
        "candidate",
        "q1",
        "visits1",
        "q2",
        "visits2",
        "revoked",
        "archived",
    )
    lines = [pairs([(label, text(facts[label])) for label in labels if facts[label] not in (None, "", False)])]
    lines += [f"\nstands for {', '.join(facts['merged'])}"] if facts["merged"] else []
    lines += [f"\n{item.title}", *([f"\n{item.text.rstrip()}"] if item.text else []), *([f"\n{item.code.rstrip()}"] if item.code else [])]
    if steps:
        cells = [
            [s.run, s.attempt, s.stage, f"{s.reward:+.2f}", f"{s.q_before:+.3f} → {s.q_after:+.3f}", "revoked" * s.revoked] for s in steps
        ]
        lines.append("\n" + draw(["run", "attempt", "stage", "reward", "Q", ""], cells, [False, False, False, True]))
    tell("\n".join(lines))


@command.command("stats")
@bank_option
@json_option
def stats(path: BankLocation, as_json: bool) -> None:
    """The bank in figures.

    \b
    Example: evokernel memory stats --memory other.db
    """
    from evokernel.reports.formatting import bytes_size

    with archive(path) as bank:
        found = bank.stats()
    if as_json:
        emit(found.model_dump(mode="json"))
        return
    tally = {
        name: ", ".join(f"{key} {count}" for key, count in table.items())
        for name, table in (("kinds", found.kinds), ("backends", found.backends))
    }
    came = ", ".join(f"{sha256[:12]} ({count} items)" for sha256, count in found.packs.items())
    tell(
        pairs(
            [
                ("bank", f"{found.path} ({bytes_size(found.size_bytes)})"),
                ("items", f"{found.items} ({tally['kinds'] or 'none'}); {found.archived} put aside, {found.revoked} revoked"),
                ("quarantined", f"{found.quarantined} kernels, which are not shown as examples"),
                ("backends", tally["backends"]),
                ("correct kernels", f"{found.feasible}, of {found.tasks} tasks"),
                ("runs", str(found.runs)),
                ("updates of values", str(found.updates)),
                *([("packs taken in", came)] if came else []),
                ("embedder", found.embedder),
            ]
        )
    )


for one in (packs.export, packs.import_, packs.inspect, packs.audit, consolidate.consolidate, consolidate.restore):
    command.add_command(one)


@command.command("revoke")
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option("--candidate", default="", metavar="ID", help="Every attempt with this very code, as verify --json and export name it.")
@click.option("--also-shown", is_flag=True, help="Correct kernels that were written with a revoked one in view, too.")
@click.option("--run", "folders", multiple=True, type=click.Path(path_type=Path), metavar="FOLDER", help="A run folder that was moved.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@bank_option
@json_option
def revoke(
    targets: tuple[str, ...], candidate: str, also_shown: bool, folders: tuple[Path, ...], dry_run: bool, path: BankLocation, as_json: bool
) -> None:
    """Take back attempts or items: they, their copies, what was refined from them, and the values they earned.

    \b
    Examples:
      evokernel memory revoke my-run:starter/softmax/3 --dry-run
      evokernel memory revoke --candidate 3f9a51c2e07b

    Run folders are marked, so that reports and exports leave revoked kernels out. Packs exported before still hold them.
    """
    from evokernel.core.errors import UserError
    from evokernel.memory.revoke import revoke as take_back

    if not targets and not candidate:
        raise UserError("name an attempt or an item to revoke, or a kernel with --candidate ID")
    done = take_back(path, *targets, candidate=candidate, also_shown=also_shown, dry_run=dry_run, folders=folders)
    say({**done._asdict(), "dry_run": dry_run}, "\n".join(revoked_lines(done, dry_run)), as_json)


def revoked_lines(done: Revocation, dry_run: bool) -> Iterator[str]:
    """What a revocation took, and what is left to decide."""
    did = "would revoke" if dry_run else "revoked"
    runs = {trace.partition(":")[0] for trace in done.attempts}
    what = f"{len(done.attempts)} attempts of {len(runs)} runs: " if done.attempts else ""
    yield f"{did} {what}{len(done.items)} items, {done.updates} updates of values; {done.recomputed} values recomputed"
    yield from (f"  {name}" for name in done.items)
    if done.shown_to:
        decide = ": take them back, too, with --also-shown, or look at them" if done.shown_and_correct else ""
        yield f"shown to {len(done.shown_to)} other attempts, {len(done.shown_and_correct)} of them correct{decide}"
        yield from (f"  {name}" for name in done.shown_and_correct)
    for run in done.unmarked:
        yield f"the folder of run {run} is not where it was: name it with --run FOLDER, or its reports count what is revoked"


def values(bank: Archive) -> dict[tuple[str, str], Standing]:
    """Q of every item, by item and stage."""
    return {(one.item, one.stage): one for one in bank.standings()}


def row(entry: Entry, known: dict[tuple[str, str], Standing]) -> dict[str, Any]:
    """An item as lists show it; Q is null until something was learned."""
    item = entry.item
    first, second = (known.get((item.id, stage)) for stage in ("draft", "refine"))
    return {
        "id": item.id,
        "kind": item.kind,
        "backend": item.backend,
        "title": item.title,
        "task": item.task,
        "family": item.family,
        "run": entry.run,
        "source": item.source,
        "pack": entry.pack,
        "candidate": item.candidate,
        "feasible": item.feasible,
        "speedup": item.speedup,
        "q1": first.q if first else None,
        "visits1": first.visits if first else 0,
        "q2": second.q if second else None,
        "visits2": second.visits if second else 0,
        "revoked": entry.revoked,
        "archived": entry.archived,
    }


def text(value: Any) -> str:
    """A cell."""
    return "–" if value is None else f"{value:+.2f}" if isinstance(value, float) else str(value)


def show_items(rows: list[dict[str, Any]], as_json: bool, count: int) -> None:
    """A list of items."""
    if as_json:
        emit(rows)
        return
    from evokernel.reports.formatting import first_line

    if not rows:
        tell("no such items")
        return
    near = "similarity" in rows[0]
    header = ["id", "kind", "Q1", "visits", "Q2", "visits", *(["similarity"] if near else []), "title"]
    cells = []
    for one in rows:
        figures = [text(one["q1"]), str(one["visits1"]), text(one["q2"]), str(one["visits2"])]
        likeness = [f"{one['similarity']:.2f}"] if near else []
        title = first_line(one["title"], 70) + (" (revoked)" if one["revoked"] else "")
        cells.append([one["id"], one["kind"], *figures, *likeness, title])
    tell(draw(header, cells, [False, False, True, True, True, True, near]))
    if count > len(rows):
        tell(f"{len(rows)} of {count} items; more with --limit")
