"""`evokernel memory`: inspects, moves and revokes the content of a memory bank."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli import consolidate, packs
from evokernel.cli.bank_options import KINDS, bank_option, embedder_option, make_embedder, open_bank, print_result
from evokernel.cli.explain import explain
from evokernel.cli.output import TERMS_EPILOG, format_pairs, format_table, json_option, print_json, print_text
from evokernel.cli.rewind import rewind
from evokernel.core.labels import format_count
from evokernel.core.memory_ids import split_trace_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evokernel.core.bank_uri import BankLocation
    from evokernel.memory.reader import BankItem, BankReader, StageValue
    from evokernel.memory.revoke import Revocation


@click.group(invoke_without_command=True, epilog=TERMS_EPILOG)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Inspect a memory bank, move its content, or revoke parts of it.

    \b
    Examples:
      evokernel memory stats
      evokernel memory list --kind trace --task starter/softmax
      evokernel memory search "online softmax with one pass"
      evokernel memory export pack.jsonl --backend cpp --held-out level2
      evokernel memory inspect pack.jsonl
      evokernel memory contamination pack.jsonl --tasks level2
      evokernel memory import pack.jsonl --memory team.db
      evokernel memory revoke my-run:starter/softmax/3 --dry-run
      evokernel memory consolidate --dry-run
      evokernel memory rewind runs/my-run
      evokernel memory explain runs/my-run starter/softmax/3
    """
    if ctx.invoked_subcommand is None:
        print_text(ctx.get_help())


@command.command("list", epilog=TERMS_EPILOG)
@bank_option
@click.option("--kind", type=click.Choice(KINDS), help="List only items of this kind.")
@click.option("--backend", default="", metavar="NAME", help="List only items of this backend.")
@click.option("--task", default="", metavar="ID", help="List only items from this task.")
@click.option("--family", default="", metavar="NAME", help="List only items of this operator family.")
@click.option("--run", default="", metavar="ID", help="List only items that this run wrote.")
@click.option("--revoked", is_flag=True, help="Include revoked items.")
@click.option("--archived", is_flag=True, help="List only archived items.")
@click.option("--quarantined", is_flag=True, help="List only notes of quarantined kernels, whose code is never shown.")
@click.option("--limit", type=click.IntRange(1), default=50, metavar="N", help="Maximum number of items, highest value first. [50]")
@json_option
def list_items(
    path: BankLocation,
    kind: str | None,
    backend: str,
    task: str,
    family: str,
    run: str,
    revoked: bool,
    archived: bool,
    quarantined: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List items with their values, highest value first.

    \b
    Example: evokernel memory list --kind practice --limit 10
    """
    with open_bank(path) as bank:
        filters = {"kind": kind or "", "backend": backend, "task": task, "family": family, "run": run}
        entries = list(bank.find_items(**filters, revoked=revoked or quarantined, archived=archived))
        entries = [entry for entry in entries if entry.is_quarantined or not quarantined]
        values = load_values(bank)
        rows = [item_record(entry, values) for entry in entries]
    rows.sort(key=lambda one: -max((one[q] for q in ("q1", "q2") if one[q] is not None), default=float("-inf")))
    print_items(rows[:limit], as_json, len(rows))


@command.command("search", epilog=TERMS_EPILOG)
@click.argument("query")
@bank_option
@embedder_option
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Search only items of this kind; may be repeated.")
@click.option("--backend", default="", metavar="NAME", help="Search only items of this backend.")
@click.option("--limit", type=click.IntRange(1), default=10, metavar="N", help="Maximum number of items. [10]")
@json_option
def search(query: str, path: BankLocation, embedder: str, kinds: tuple[Any, ...], backend: str, limit: int, as_json: bool) -> None:
    """Find the items most similar to QUERY, as a run would find them.

    \b
    Example: evokernel memory search "tile matmul for the cache" --kind practice
    """
    with open_bank(path) as bank:
        hits = bank.search(query, make_embedder(embedder), limit, kinds=kinds, backend=backend)
        values = load_values(bank)
        rows = [{**item_record(bank.get_item(hit.item.id), values), "similarity": float(hit.similarity)} for hit in hits]
        is_empty = bank.count_items() == 0
    if is_empty and not as_json:
        print_text(f"Memory bank {path} is empty. Runs fill it: evokernel run --memory {path}")
        return
    print_items(rows, as_json, len(rows))


@command.command("show", epilog=TERMS_EPILOG)
@click.argument("id")
@bank_option
@json_option
def show(id: str, path: BankLocation, as_json: bool) -> None:
    """Show one item in full: its text, its code and the history of its value.

    \b
    Example: evokernel memory show cpp/online-softmax
    """
    with open_bank(path) as bank:
        entry, steps = bank.get_item(id), bank.value_history(id)
        record = {**item_record(entry, load_values(bank)), "merged": bank.find_merged_items(id)}
    if as_json:
        print_json({**record, "item": entry.item.model_dump(mode="json"), "history": [step._asdict() for step in steps]})
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
    lines = [format_pairs([(label, format_cell(record[label])) for label in labels if record[label] not in (None, "", False)])]
    lines += [f"\nmerged items: {', '.join(record['merged'])}"] if record["merged"] else []
    lines += [f"\n{item.title}", *([f"\n{item.text.rstrip()}"] if item.text else []), *([f"\n{item.code.rstrip()}"] if item.code else [])]
    if steps:
        cells = [
            [s.run, s.attempt, s.stage, f"{s.reward:+.2f}", f"{s.q_before:+.3f} → {s.q_after:+.3f}", "revoked" * s.revoked] for s in steps
        ]
        lines.append("\n" + format_table(["run", "attempt", "stage", "reward", "Q", ""], cells, [False, False, False, True]))
    print_text("\n".join(lines))


@command.command("stats")
@bank_option
@json_option
def stats(path: BankLocation, as_json: bool) -> None:
    """Print the main figures of the bank.

    \b
    Example: evokernel memory stats --memory other.db
    """
    from evokernel.reports.formatting import format_bytes

    with open_bank(path) as bank:
        counts = bank.compute_stats()
    if as_json:
        print_json(counts.model_dump(mode="json"))
        return
    tally = {
        name: ", ".join(f"{key} {count}" for key, count in table.items())
        for name, table in (("kinds", counts.kinds), ("backends", counts.backends))
    }
    packs = ", ".join(f"{sha256[:12]} ({format_count(count, 'item')})" for sha256, count in counts.packs.items())
    print_text(
        format_pairs(
            [
                ("bank", f"{counts.path} ({format_bytes(counts.size_bytes)})"),
                ("items", f"{counts.items} ({tally['kinds'] or 'none'}); {counts.archived} archived, {counts.revoked} revoked"),
                ("quarantined", f"{format_count(counts.quarantined, 'kernel')}, never shown as examples"),
                ("backends", tally["backends"]),
                ("correct kernels", f"{counts.feasible} for {format_count(counts.tasks, 'task')}"),
                ("runs", str(counts.runs)),
                ("value updates", str(counts.updates)),
                *([("imported packs", packs)] if packs else []),
                ("embedder", counts.embedder),
            ]
        )
    )


for one in (packs.export, packs.import_, packs.inspect, packs.contamination, consolidate.consolidate, consolidate.restore, rewind, explain):
    command.add_command(one)


@command.command("revoke", epilog=TERMS_EPILOG)
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option(
    "--candidate", default="", metavar="ID", help="Revoke every attempt with this candidate id, as 'verify --json' and 'export' print it."
)
@click.option("--include-influenced", is_flag=True, help="Also revoke correct kernels whose prompts showed a revoked item.")
@click.option(
    "--run",
    "run_folders",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="New location of a run folder that was moved; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Print the changes without making them.")
@bank_option
@json_option
def revoke(
    targets: tuple[str, ...],
    candidate: str,
    include_influenced: bool,
    run_folders: tuple[Path, ...],
    dry_run: bool,
    path: BankLocation,
    as_json: bool,
) -> None:
    """Revoke attempts or items with their copies, their refinements and the value updates they caused.

    \b
    Examples:
      evokernel memory revoke my-run:starter/softmax/3 --dry-run
      evokernel memory revoke --candidate 3f9a51c2e07b

    Run folders are marked, so that reports and exports leave revoked kernels out. Packs exported earlier still contain them.
    """
    from evokernel.core.errors import UserError
    from evokernel.memory.revoke import revoke as revoke_items

    if not targets and not candidate:
        raise UserError("nothing to revoke: name an attempt or an item, or a kernel with --candidate ID.")
    revocation = revoke_items(
        path, *targets, candidate=candidate, include_influenced=include_influenced, dry_run=dry_run, folders=run_folders
    )
    print_result({**revocation._asdict(), "dry_run": dry_run}, "\n".join(describe_revocation(revocation, dry_run)), as_json)


def describe_revocation(revocation: Revocation, dry_run: bool) -> Iterator[str]:
    """The revoked items and what is left to decide, as text lines."""
    verb = "Would revoke" if dry_run else "Revoked"
    runs = {split_trace_id(trace)[0] for trace in revocation.attempts}
    attempts_text = (
        f"{format_count(len(revocation.attempts), 'attempt')} of {format_count(len(runs), 'run')}: " if revocation.attempts else ""
    )
    items, updates = format_count(len(revocation.items), "item"), format_count(revocation.updates, "value update")
    yield f"{verb} {attempts_text}{items}, {updates}; {format_count(revocation.recomputed_values, 'value')} recomputed"
    yield from (f"  {name}" for name in revocation.items)
    if revocation.shown_to:
        hint = ": inspect them, or revoke them with --include-influenced" if revocation.shown_and_correct else ""
        attempts = format_count(len(revocation.shown_to), "other attempt")
        yield f"Shown to {attempts}, {len(revocation.shown_and_correct)} of them correct{hint}"
        yield from (f"  {name}" for name in revocation.shown_and_correct)
    for run in revocation.unmarked_runs:
        yield f"The folder of run {run} was moved: name it with --run FOLDER, or its reports still count the revoked attempts."


def load_values(bank: BankReader) -> dict[tuple[str, str], StageValue]:
    """Q of every item, by item and stage."""
    return {(one.item, one.stage): one for one in bank.list_values()}


def item_record(entry: BankItem, values: dict[tuple[str, str], StageValue]) -> dict[str, Any]:
    """An item as lists show it; Q is null before the first update."""
    item = entry.item
    draft_value, refine_value = (values.get((item.id, stage)) for stage in ("draft", "refine"))
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
        "q1": draft_value.q if draft_value else None,
        "visits1": draft_value.visits if draft_value else 0,
        "q2": refine_value.q if refine_value else None,
        "visits2": refine_value.visits if refine_value else 0,
        "revoked": entry.is_revoked,
        "archived": entry.is_archived,
    }


def format_cell(value: Any) -> str:
    """A value as a table cell."""
    return "–" if value is None else f"{value:+.2f}" if isinstance(value, float) else str(value)


def print_items(rows: list[dict[str, Any]], as_json: bool, total: int) -> None:
    """Print a list of items."""
    if as_json:
        print_json(rows)
        return
    from evokernel.reports.formatting import first_line

    if not rows:
        print_text("No matching items.")
        return
    has_similarity = "similarity" in rows[0]
    header = ["id", "kind", "Q1", "visits", "Q2", "visits", *(["similarity"] if has_similarity else []), "title"]
    cells = []
    for one in rows:
        figures = [format_cell(one["q1"]), str(one["visits1"]), format_cell(one["q2"]), str(one["visits2"])]
        similarity = [f"{one['similarity']:.2f}"] if has_similarity else []
        title = first_line(one["title"], 70) + (" (revoked)" if one["revoked"] else "")
        cells.append([one["id"], one["kind"], *figures, *similarity, title])
    print_text(format_table(header, cells, [False, False, True, True, True, True, has_similarity]))
    if total > len(rows):
        print_text(f"{len(rows)} of {total} items; use --limit for more")
