"""`evokernel memory export`, `import`, `inspect` and `audit`: memory that goes from one bank to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.bank_options import KINDS, BankType, bank_option, embedder_option, made, say
from evokernel.cli.output import draw, emit, json_option, pairs, tell

if TYPE_CHECKING:
    from evokernel.core.bank_uri import BankLocation
    from evokernel.experiments.bank_contamination import Audit
    from evokernel.memory.pack_file import Filters, Pack
    from evokernel.memory.provenance import Origin

SHORT = 12


@click.command("export")
@click.argument("file", type=click.Path(path_type=Path))
@bank_option
@click.option("--backend", default="", metavar="NAME", help="Only this backend.")
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only this kind; may be repeated.")
@click.option("--task", "tasks", multiple=True, metavar="ID", help="Only what came from this task, or a pattern; may be repeated.")
@click.option("--suite", "suites", multiple=True, metavar="NAME", help="Only what came from this suite; may be repeated.")
@click.option(
    "--without",
    "--without-task",
    "without",
    multiple=True,
    metavar="TASK|SUITE",
    help="Leave out a task or a suite and what was learned on it; may be repeated.",
)
@click.option("--held-out", default="", metavar="SPEC", help="Leave out whatever tells about these tasks, under whatever name.")
@json_option
def export(
    file: Path,
    path: BankLocation,
    backend: str,
    kinds: tuple[str, ...],
    tasks: tuple[str, ...],
    suites: tuple[str, ...],
    without: tuple[str, ...],
    held_out: str,
    as_json: bool,
) -> None:
    """Write the bank, or a part of it, as a pack: JSON lines, signed by their hash, that another bank can take in.

    \b
    Examples:
      evokernel memory export pack.jsonl --backend cpp
      evokernel memory export pack.jsonl --suite level1 --without 'level1/conv*'
      evokernel memory export pack.jsonl --held-out level2

    Knowledge cards stay in, whatever tasks are named. What was learned on tasks that are left out stays out.
    """
    from evokernel.core.plugins import did_you_mean
    from evokernel.memory.pack_file import Filters
    from evokernel.memory.packs import NOTHING, unmatched
    from evokernel.memory.packs import export as pack

    filters = Filters(backend=backend, kinds=kinds, tasks=tasks, suites=suites, without=without, held_out=held_out)
    for name, known in unmatched(path, filters):
        tell(f"note: nothing in {path} is of '{name}'{did_you_mean(name, known)}", err=True)
    found = audited(path, held_out) if held_out else None
    header = pack(path, file, filters, found.leaving() if found else NOTHING)
    left = {"items": len(found.leaks), "updates": sum(found.updates.values()), "operators": found.told} if found else None
    words = f"{file}: {header.items} items, {header.updates} updates of values; sha256 {header.sha256}"
    if found:
        words += f"\nleft out: {len(found.leaks)} items, which tell about {len(found.told)} of {len(found.operators)} held-out operators"
    say({"file": str(file), "items": header.items, "updates": header.updates, "sha256": header.sha256, "held_out": left}, words, as_json)


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@bank_option
@embedder_option
@click.option("--unsigned", is_flag=True, help="Take a pack that was changed since it was exported.")
@json_option
def import_(file: Path, path: BankLocation, embedder: str, unsigned: bool, as_json: bool) -> None:
    """Add a pack to the bank; what it already has is left alone.

    \b
    Examples:
      evokernel memory import pack.jsonl --memory team.db
      evokernel memory import edited.jsonl --unsigned
    """
    from evokernel.experiments.pack_compat import differences
    from evokernel.memory.pack_file import read
    from evokernel.memory.packs import take

    pack = read(file, unsigned)
    notes = [*([signature(pack)] if pack.fault or not pack.is_signed else []), *differences(pack.header)]
    moved = take(path, pack, made(embedder))
    for note in notes:
        tell(f"note: {note}", err=True)
    done = {"bank": str(path), **moved._asdict(), "sha256": pack.sha256, "signed": pack.is_signed and not pack.fault, "notes": notes}
    aside = f"; {moved.aside} of the items are put aside, as others stand for them" if moved.aside else ""
    say(done, f"{path}: {moved.items} items and {moved.updates} updates of values added{aside}", as_json)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def inspect(file: Path, as_json: bool) -> int:
    """What a pack holds, where it comes from, and whether it is what was exported. Exit code 1 when it is not.

    \b
    Examples:
      evokernel memory inspect pack.jsonl
      evokernel memory inspect pack.jsonl --json
    """
    from evokernel.memory.pack_file import described, read

    pack = read(file, unsigned=True)
    counts = described(held.item for held in pack.items)
    tasks: dict[str, int] = {}
    for held in pack.items:
        if held.item.task is not None:
            tasks[held.item.task] = tasks.get(held.item.task, 0) + 1
    found = {"kinds": counts["kinds"], "backends": counts["backends"], "tasks": dict(sorted(tasks.items()))}
    if as_json:
        header = pack.header.model_dump(mode="json", exclude_none=True)
        verdict = {"signed": pack.is_signed, "intact": pack.is_signed and not pack.fault, "fault": pack.fault, "sha256": pack.sha256}
        emit({"file": str(file), **verdict, "items": len(pack.items), "updates": len(pack.updates), **found, "header": header})
    else:
        tell(page(file, pack, found))
    return 1 if pack.fault else 0


@click.command()
@click.argument("target", type=BankType(), metavar="PACK|BANK")
@click.option("--tasks", "spec", required=True, metavar="SPEC", help="The held-out operators: suite, suite/name, file, folder or glob.")
@click.option(
    "--kernels",
    multiple=True,
    type=BankType(),
    metavar="PACK|BANK",
    help="One that holds kernels of these operators, to recognise copies by; may be repeated.",
)
@click.option("--limit", type=click.IntRange(1), default=50, metavar="N", help="At most so many items in the table. [50]")
@json_option
def audit(target: BankLocation, spec: str, kernels: tuple[BankLocation, ...], limit: int, as_json: bool) -> int:
    """Does a pack or a bank tell about operators it is to be tried on? Exit code 1 when it does.

    \b
    Examples:
      evokernel memory audit pack.jsonl --tasks level2
      evokernel memory audit pack.jsonl --tasks ./my_ops --kernels evokernel-memory.db --json

    Names do not matter: references are compared by what they do, kernels and texts by what stands in them.
    """
    from evokernel.experiments.bank_contamination import WHY

    found = audited(target, spec, kernels)
    leaks = [{**leak._asdict(), "reason": WHY[leak.why]} for leak in found.leaks]
    if as_json:
        looked = {"file": str(target), "clean": found.is_clean, "operators": len(found.operators), "items": found.items}
        emit({**looked, "told": found.told, "leaks": leaks, "updates": found.updates})
        return 0 if found.is_clean else 1
    if found.is_clean:
        tell(f"nothing in {target} tells about the {len(found.operators)} operators, as far as its {found.items} items' text can tell")
        return 0
    if leaks:
        tell(draw(["item", "tells about", "why"], [[one["item"], one["operator"], reason(one)] for one in leaks[:limit]]))
        tell("" if len(leaks) <= limit else f"{limit} of {len(leaks)} items; more with --limit")
    learned = sum(found.updates.values())
    tell(f"{target} tells about {len(found.told)} of {len(found.operators)}: {len(leaks)} items, {learned} updates of values")
    tell(f"'evokernel memory export FILE --memory BANK --held-out {spec}' leaves all that out")
    return 1


def audited(target: BankLocation, spec: str, kernels: tuple[BankLocation, ...] = ()) -> Audit:
    """What a bank or a pack tells about the operators of a specification."""
    from evokernel.experiments.bank_contamination import audit as look
    from evokernel.experiments.bank_contamination import operators, remembered

    return look(remembered(target), operators(spec), [remembered(path) for path in kernels])


def reason(leak: dict[str, Any]) -> str:
    """Why, in a cell."""
    by = f": {leak['by']}" if leak["by"] else ""
    return f"{leak['reason']}{by}" + (f" ({leak['likeness']:.0%} alike)" if leak["likeness"] is not None else "")


def signature(pack: Pack) -> str:
    """Whether a pack is what was exported."""
    if not pack.is_signed:
        return f"not signed (format {pack.header.evokernel_memory}, before packs had a header); it hashes to {pack.sha256}"
    return f"not what was exported: {pack.fault}" if pack.fault else f"sha256 {pack.sha256}, as its header says"


def page(file: Path, pack: Pack, found: dict[str, Any]) -> str:
    """A pack, for people."""
    header = pack.header
    tally = {name: ", ".join(f"{key} {count}" for key, count in table.items()) for name, table in found.items()}
    chosen = asked_for(header.filters)
    rows = [
        ("pack", f"{file} (format {header.evokernel_memory})"),
        ("signature", signature(pack)),
        ("made", f"{header.made} by evokernel {header.evokernel}" if header.made else "not noted"),
        ("asked for", chosen or ("everything" if pack.is_signed else "not noted")),
        ("items", f"{len(pack.items)} ({tally['kinds'] or 'none'})"),
        ("updates of values", str(len(pack.updates))),
        ("backends", tally["backends"] or "none"),
        ("tasks", f"{len(found['tasks'])}: {tally['tasks']}" if found["tasks"] else "none"),
    ]
    return "\n".join([pairs(rows), *(f"\nrun {origin.run}\n{pairs(facts(origin))}" for origin in header.runs)])


def asked_for(filters: Filters) -> str:
    """The filters a pack was made with."""
    given = filters.model_dump(exclude_defaults=True)
    return "; ".join(f"{name.replace('_', ' ')} {value if isinstance(value, str) else ', '.join(value)}" for name, value in given.items())


def facts(origin: Origin) -> list[tuple[str, str]]:
    """What is known of a run."""
    known = origin.model_dump(exclude_none=True, exclude={"run"})
    tables = {name: "; ".join(f"{key}: {text}" for key, text in value.items()) for name, value in known.items() if isinstance(value, dict)}
    return [(f"  {name}", tables.get(name, str(value))) for name, value in known.items()]
