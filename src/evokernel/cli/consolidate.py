"""`evokernel memory consolidate` and `restore`: a bank that does not grow without bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from evokernel.cli.bank_options import bank_option, say
from evokernel.cli.output import json_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evokernel.core.bank_uri import BankLocation
    from evokernel.memory.consolidate import Consolidation

TOLD = 20


@click.command("consolidate")
@bank_option
@click.option("--backend", default="", metavar="NAME", help="Only this backend.")
@click.option("--alike", type=click.FloatRange(0, 1), default=0.9, metavar="SHARE", help="How much of two kernels is the same. [0.9]")
@click.option("--below", type=float, default=-0.5, metavar="Q", help="Put aside what is worth less at every stage. [-0.5]")
@click.option("--visits", type=click.IntRange(1), default=5, metavar="N", help="But only what was tried so often. [5]")
@click.option("--most", type=click.IntRange(1), default=100, metavar="N", help="Attempts kept of a task. [100]")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@json_option
def consolidate(path: BankLocation, backend: str, alike: float, below: float, visits: int, most: int, dry_run: bool, as_json: bool) -> None:
    """Merge near copies of a task's kernels, and put aside what turned out to be worth little.

    \b
    Examples:
      evokernel memory consolidate --dry-run
      evokernel memory consolidate --memory team.db --most 50

    Nothing is lost: 'evokernel memory list --archived' shows what was put aside, 'evokernel memory restore ID' brings it back.
    """
    from evokernel.memory.consolidate import Limits
    from evokernel.memory.consolidate import consolidate as tidy

    done = tidy(path, Limits(alike, below, visits, most), backend, dry_run)
    told = {**done._asdict(), "merged": [one._asdict() for one in done.merged], "archived": [one._asdict() for one in done.archived]}
    say({**told, "dry_run": dry_run}, "\n".join(lines(done, dry_run)), as_json)


@click.command("restore")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@bank_option
@json_option
def restore(ids: tuple[str, ...], path: BankLocation, as_json: bool) -> None:
    """Bring back items that consolidation put aside, with their own values.

    \b
    Example: evokernel memory restore my-run:starter/softmax/3
    """
    from evokernel.memory.consolidate import restore as bring_back

    done = bring_back(path, *ids)
    say({"restored": list(done)}, f"restored {len(done)} item{'s' * (len(done) != 1)}", as_json)


def lines(done: Consolidation, dry_run: bool) -> Iterator[str]:
    """What was done, and why."""
    would = "would merge" if dry_run else "merged"
    aside = "would put aside" if dry_run else "put aside"
    counts = f"{done.items_before} items before, {done.items_after} after"
    yield f"{would} {len(done.merged)} kernels, {aside} {len(done.archived)} items; {counts}"
    for merge in done.merged[:TOLD]:
        yield f"  {merge.item} into {merge.survivor} ({merge.likeness:.0%} alike)"
    for one in done.archived[:TOLD]:
        yield f"  {one.item}: {one.why}"
    left = max(0, len(done.merged) - TOLD) + max(0, len(done.archived) - TOLD)
    if left:
        yield f"  and {left} more, which --json lists"
