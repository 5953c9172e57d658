"""`evokernel memory export`, `import`, `inspect` and `contamination`: move memory between banks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.bank_options import KINDS, BankType, bank_option, embedder_option, make_embedder, print_result
from evokernel.cli.output import TERMS_EPILOG, format_pairs, format_table, json_option, print_json, print_text
from evokernel.core.labels import format_count

if TYPE_CHECKING:
    from evokernel.core.bank_uri import BankLocation
    from evokernel.memory.pack_file import MemoryPack, PackFilters
    from evokernel.memory.provenance import RunProvenance

SHORT = 12


@click.command("export", epilog=TERMS_EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@bank_option
@click.option("--backend", default="", metavar="NAME", help="Export only items of this backend.")
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Export only items of this kind; may be repeated.")
@click.option("--task", "tasks", multiple=True, metavar="ID", help="Export only items from this task or pattern; may be repeated.")
@click.option("--suite", "suites", multiple=True, metavar="NAME", help="Export only items from this suite; may be repeated.")
@click.option(
    "--exclude",
    multiple=True,
    metavar="TASK|SUITE",
    help="Exclude a task or suite, and everything learned on it; may be repeated.",
)
@click.option("--held-out", default="", metavar="SPEC", help="Exclude every item that reveals these tasks, under any name.")
@json_option
def export(
    file: Path,
    path: BankLocation,
    backend: str,
    kinds: tuple[str, ...],
    tasks: tuple[str, ...],
    suites: tuple[str, ...],
    exclude: tuple[str, ...],
    held_out: str,
    as_json: bool,
) -> None:
    """Export the bank or a part of it as a memory pack: JSON lines with a checksum that another bank can import.

    \b
    Examples:
      evokernel memory export pack.jsonl --backend cpp
      evokernel memory export pack.jsonl --suite level1 --exclude 'level1/conv*'
      evokernel memory export pack.jsonl --held-out level2

    Knowledge cards are always exported. Items learned on excluded tasks are not.
    """
    from evokernel.core.plugins import did_you_mean
    from evokernel.memory.bank_contamination import find_contamination
    from evokernel.memory.pack_file import PackFilters
    from evokernel.memory.packs import NO_EXCLUSIONS, export_pack, find_unmatched_filters

    filters = PackFilters(backend=backend, kinds=kinds, tasks=tasks, suites=suites, exclude=exclude, held_out=held_out)
    for name, known_names in find_unmatched_filters(path, filters):
        print_text(f"note: {path} has no items of '{name}'{did_you_mean(name, known_names)}", err=True)
    contamination = find_contamination(path, held_out) if held_out else None
    header = export_pack(path, file, filters, contamination.export_filter() if contamination else NO_EXCLUSIONS)
    held_out_record = (
        {"items": len(contamination.matches), "updates": sum(contamination.updates.values()), "operators": contamination.revealed_operators}
        if contamination
        else None
    )
    text = f"{file}: {format_count(header.items, 'item')}, {format_count(header.updates, 'value update')}; sha256 {header.sha256}"
    if contamination:
        operators = f"{len(contamination.revealed_operators)} of {format_count(len(contamination.operators), 'held-out operator')}"
        text += f"\nexcluded: {format_count(len(contamination.matches), 'item')} on {operators}"
    print_result(
        {"file": str(file), "items": header.items, "updates": header.updates, "sha256": header.sha256, "held_out": held_out_record},
        text,
        as_json,
    )


@click.command("import", epilog=TERMS_EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@bank_option
@embedder_option
@click.option("--allow-modified", is_flag=True, help="Import a pack even if it was modified after its export.")
@json_option
def import_(file: Path, path: BankLocation, embedder: str, allow_modified: bool, as_json: bool) -> None:
    """Import a memory pack into the bank; items that the bank already has stay unchanged.

    \b
    Examples:
      evokernel memory import pack.jsonl --memory team.db
      evokernel memory import edited.jsonl --allow-modified
    """
    from evokernel.memory.pack_compat import toolchain_differences
    from evokernel.memory.pack_file import read_pack
    from evokernel.memory.packs import import_pack

    pack = read_pack(file, allow_modified)
    notes = [*([describe_signature(pack)] if pack.integrity_error else []), *toolchain_differences(pack.header)]
    imported = import_pack(path, pack, make_embedder(embedder))
    for note in notes:
        print_text(f"note: {note}", err=True)
    record = {"bank": str(path), **imported._asdict(), "sha256": pack.sha256, "signed": not pack.integrity_error, "notes": notes}
    archived_note = f"; {imported.archived} of them archived, because other items replace them" if imported.archived else ""
    print_result(
        record,
        f"{path}: added {format_count(imported.items, 'item')} and {format_count(imported.updates, 'value update')}{archived_note}",
        as_json,
    )


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def inspect(file: Path, as_json: bool) -> int:
    """Show the content, the provenance and the signature of a memory pack. Exit code 1 if the pack was modified.

    \b
    Examples:
      evokernel memory inspect pack.jsonl
      evokernel memory inspect pack.jsonl --json
    """
    from evokernel.memory.pack_file import read_pack, summarize_items

    pack = read_pack(file, allow_modified=True)
    counts = summarize_items(packed.item for packed in pack.items)
    content = {"kinds": counts["kinds"], "backends": counts["backends"], "tasks": pack.count_tasks()}
    if as_json:
        header = pack.header.model_dump(mode="json", exclude_none=True)
        signature = {"intact": not pack.integrity_error, "integrity_error": pack.integrity_error, "sha256": pack.sha256}
        print_json({"file": str(file), **signature, "items": len(pack.items), "updates": len(pack.updates), **content, "header": header})
    else:
        print_text(format_pack(file, pack, content))
    return 1 if pack.integrity_error else 0


@click.command()
@click.argument("target", type=BankType(), metavar="PACK|BANK")
@click.option("--tasks", "spec", required=True, metavar="SPEC", help="Held-out operators: a suite, suite/name, file, folder or glob.")
@click.option(
    "--known-kernels",
    "kernels",
    multiple=True,
    type=BankType(),
    metavar="PACK|BANK",
    help="Pack or bank with known kernels of the held-out operators: items that copy one are reported; may be repeated.",
)
@click.option("--limit", type=click.IntRange(1), default=50, metavar="N", help="Maximum number of items in the table. [50]")
@json_option
def contamination(target: BankLocation, spec: str, kernels: tuple[BankLocation, ...], limit: int, as_json: bool) -> int:
    """Check whether a memory pack or bank reveals held-out operators. Exit code 1 if it does.

    \b
    Examples:
      evokernel memory contamination pack.jsonl --tasks level2
      evokernel memory contamination pack.jsonl --tasks ./my_ops --known-kernels evokernel-memory.db --json

    The check ignores names: it compares references by what they compute, and kernels and texts by their content.
    """
    from evokernel.memory.bank_contamination import MATCH_REASONS, find_contamination

    report = find_contamination(target, spec, kernels)
    matches = [{**match._asdict(), "explanation": MATCH_REASONS[match.reason]} for match in report.matches]
    if as_json:
        summary = {"file": str(target), "clean": report.is_clean, "operators": len(report.operators), "items": report.item_count}
        print_json({**summary, "revealed_operators": report.revealed_operators, "matches": matches, "updates": report.updates})
        return 0 if report.is_clean else 1
    if report.is_clean:
        print_text(
            f"{target}: none of {format_count(report.item_count, 'item')} reveals any of "
            f"{format_count(len(report.operators), 'held-out operator')}."
        )
        return 0
    if matches:
        print_text(
            format_table(["item", "operator", "reason"], [[one["item"], one["operator"], format_reason(one)] for one in matches[:limit]])
        )
        print_text("" if len(matches) <= limit else f"{limit} of {len(matches)} items; use --limit for more")
    update_count = sum(report.updates.values())
    print_text(
        f"{target} contains data on {len(report.revealed_operators)} of {format_count(len(report.operators), 'held-out operator')} "
        f"({format_count(len(matches), 'item')}, {format_count(update_count, 'value update')})."
    )
    print_text(f"To export without them: evokernel memory export FILE --memory BANK --held-out {spec}")
    return 1


def format_reason(match: dict[str, Any]) -> str:
    """Why an item counts as contamination, as a table cell."""
    evidence = f": {match['via_item']}" if match["via_item"] else ""
    return f"{match['explanation']}{evidence}" + (f" ({match['similarity']:.0%} similar)" if match["similarity"] is not None else "")


def describe_signature(pack: MemoryPack) -> str:
    """Whether the pack is unchanged since its export."""
    return f"modified after its export: {pack.integrity_error}" if pack.integrity_error else f"intact, sha256 {pack.sha256}"


def format_pack(file: Path, pack: MemoryPack, counts: dict[str, Any]) -> str:
    """A memory pack as text."""
    header = pack.header
    tally = {name: ", ".join(f"{key} {count}" for key, count in table.items()) for name, table in counts.items()}
    filters = describe_filters(header.filters)
    rows = [
        ("pack", f"{file} (format {header.evokernel_memory})"),
        ("signature", describe_signature(pack)),
        ("created", f"{header.created_at} by evokernel {header.evokernel_version}" if header.created_at else "unknown"),
        ("filters", filters or "everything"),
        ("items", f"{len(pack.items)} ({tally['kinds'] or 'none'})"),
        ("value updates", str(len(pack.updates))),
        ("backends", tally["backends"] or "none"),
        ("tasks", f"{len(counts['tasks'])}: {tally['tasks']}" if counts["tasks"] else "none"),
    ]
    return "\n".join([format_pairs(rows), *(f"\nrun {origin.run}\n{format_pairs(provenance_rows(origin))}" for origin in header.runs)])


def describe_filters(filters: PackFilters) -> str:
    """The filters that the pack was exported with."""
    values = filters.model_dump(exclude_defaults=True)
    return "; ".join(f"{name.replace('_', ' ')} {value if isinstance(value, str) else ', '.join(value)}" for name, value in values.items())


def provenance_rows(origin: RunProvenance) -> list[tuple[str, str]]:
    """The provenance of a run as labels and values."""
    fields = origin.model_dump(exclude_none=True, exclude={"run"})
    tables = {name: "; ".join(f"{key}: {text}" for key, text in value.items()) for name, value in fields.items() if isinstance(value, dict)}
    return [(f"  {name}", tables.get(name, str(value))) for name, value in fields.items()]
