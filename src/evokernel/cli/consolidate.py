"""`evokernel memory consolidate` and `restore`: keep a memory bank from growing without bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from evokernel.cli.bank_options import bank_option, print_result
from evokernel.cli.output import TERMS_EPILOG, json_option
from evokernel.core.labels import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evokernel.core.bank_uri import BankLocation
    from evokernel.memory.consolidate import Consolidation

MAX_LISTED = 20


@click.command("consolidate", epilog=TERMS_EPILOG)
@bank_option
@click.option("--backend", default="", metavar="NAME", help="Consolidate only items of this backend.")
@click.option(
    "--min-similarity",
    type=click.FloatRange(0, 1),
    default=0.9,
    metavar="SHARE",
    help="Minimum similarity of two kernels to merge them. [0.9]",
)
@click.option("--max-value", type=float, default=-0.5, metavar="Q", help="Archive items whose value is below Q at every stage. [-0.5]")
@click.option(
    "--min-visits", type=click.IntRange(1), default=5, metavar="N", help="Minimum number of value updates before an item is archived. [5]"
)
@click.option("--max-per-task", type=click.IntRange(1), default=100, metavar="N", help="Maximum number of attempts to keep per task. [100]")
@click.option("--dry-run", is_flag=True, help="Print the changes without making them.")
@json_option
def consolidate(
    path: BankLocation,
    backend: str,
    min_similarity: float,
    max_value: float,
    min_visits: int,
    max_per_task: int,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Merge near-duplicate kernels of a task, and archive items of low value.

    \b
    Examples:
      evokernel memory consolidate --dry-run
      evokernel memory consolidate --memory team.db --max-per-task 50

    Nothing is deleted: 'evokernel memory list --archived' lists archived items, 'evokernel memory restore ID' restores them.
    """
    from evokernel.memory.consolidate import Limits
    from evokernel.memory.consolidate import consolidate as consolidate_bank

    result = consolidate_bank(path, Limits(min_similarity, max_value, min_visits, max_per_task), backend, dry_run)
    record = {
        **result._asdict(),
        "merged": [one._asdict() for one in result.merged],
        "archived": [one._asdict() for one in result.archived],
    }
    print_result({**record, "dry_run": dry_run}, "\n".join(describe_consolidation(result, dry_run)), as_json)


@click.command("restore")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@bank_option
@json_option
def restore(ids: tuple[str, ...], path: BankLocation, as_json: bool) -> None:
    """Restore archived items with their own values.

    \b
    Example: evokernel memory restore my-run:starter/softmax/3
    """
    from evokernel.memory.consolidate import restore_items as restore_items

    restored = restore_items(path, *ids)
    print_result({"restored": list(restored)}, f"Restored {format_count(len(restored), 'item')}", as_json)


def describe_consolidation(result: Consolidation, dry_run: bool) -> Iterator[str]:
    """The merged and archived items as text lines."""
    merge_verb = "Would merge" if dry_run else "Merged"
    archive_verb = "would archive" if dry_run else "archived"
    counts = f"{result.items_before} items before, {result.items_after} after"
    kernel_count, item_count = format_count(len(result.merged), "kernel"), format_count(len(result.archived), "item")
    yield f"{merge_verb} {kernel_count}, {archive_verb} {item_count}; {counts}"
    for merge in result.merged[:MAX_LISTED]:
        yield f"  {merge.item} into {merge.survivor} ({merge.similarity:.0%} similar)"
    for one in result.archived[:MAX_LISTED]:
        yield f"  {one.item}: {one.reason}"
    unlisted_count = max(0, len(result.merged) - MAX_LISTED) + max(0, len(result.archived) - MAX_LISTED)
    if unlisted_count:
        yield f"  and {unlisted_count} more; --json lists all"
