"""`evokernel bundle`: packs a run for a machine without a network, and imports its results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from evokernel.cli.bank_options import BankType
from evokernel.cli.output import TERMS_EPILOG, format_pairs, json_option, print_json, print_text
from evokernel.core.errors import UserError

if TYPE_CHECKING:
    from evokernel.core.bank_uri import BankLocation

DEFAULT_PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_28_x86_64")


@click.group(epilog=TERMS_EPILOG)
def command() -> None:
    """Pack a run for a machine without a network, and import its results.

    \b
    Examples:
      evokernel bundle pack run.tar.gz -- --backend cuda --tasks starter --generator from_files
      evokernel bundle import results.tar.gz
    """


@command.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENTS OF run]")
@click.option("--python", default="3.12", show_default=True, help="Python version of the other machine.")
@click.option(
    "--platform",
    "platforms",
    multiple=True,
    metavar="TAG",
    help=f"Platform tag of the other machine, as pip names it; may be repeated. [{DEFAULT_PLATFORMS[0]}]",
)
@click.option(
    "--preinstalled",
    default="numpy,torch,triton",
    show_default=True,
    help="Packages that the other machine already has, separated by commas.",
)
@click.option(
    "--task",
    "tasks",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Task file or folder to include; the bundle stores it as tasks/NAME; may be repeated.",
)
@click.option("--memory", type=BankType(), metavar="PATH", help="Memory bank file to include.")
@json_option
def pack(
    out: Path,
    arguments: tuple[str, ...],
    python: str,
    platforms: tuple[str, ...],
    preinstalled: str,
    tasks: tuple[Path, ...],
    memory: BankLocation | None,
    as_json: bool,
) -> None:
    """Pack everything that `evokernel run` needs into one file; on the other machine, unpack it and run run.sh.

    \b
    Examples:
      evokernel bundle pack run.tar.gz -- --backend triton --tasks starter --budget 5
      evokernel bundle pack run.tar.gz --task my_ops --memory evokernel-memory.db -- --backend cuda --tasks tasks/my_ops
      evokernel bundle pack run.tar.gz --python 3.11 --platform manylinux2014_aarch64 -- --backend cpp
    """
    if memory is not None and not isinstance(memory, Path):
        raise UserError(
            f"A bundle can include a memory bank only as a file, not {memory}. "
            "Export it with 'evokernel memory export', then import the pack into a file."
        )
    from evokernel.app.bundle import RESULTS
    from evokernel.app.bundle import pack_bundle as pack_bundle

    print_text("Packing: pip downloads the packages for the other machine ...", err=True)
    bundle = pack_bundle(out, arguments, tasks, memory, python, platforms or DEFAULT_PLATFORMS, preinstalled.split(","))
    if as_json:
        print_json({**bundle._asdict(), "file": str(bundle.file)})
        return
    print_text(format_pairs([("file", f"{bundle.file}, {bundle.nbytes / 1e6:.1f} MB"), ("packages", ", ".join(bundle.packages))]))
    print_text(
        f"\nOn the other machine:  tar -xzf {out.name} && ./evokernel-bundle/run.sh\n"
        f"Then, on this machine: evokernel bundle import evokernel-bundle/{RESULTS}"
    )


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--into", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Folder for the imported run.")
@json_option
def import_results(file: Path, into: Path, as_json: bool) -> None:
    """Unpack the results that run.sh wrote on the other machine as a run folder.

    \b
    Examples:
      evokernel bundle import results.tar.gz
      evokernel bundle import results.tar.gz --into elsewhere --json
    """
    from evokernel.app.bundle import import_results as import_bundle

    imported = import_bundle(file, into)
    if as_json:
        print_json({"run": str(imported.run), "bank": str(imported.bank) if imported.bank else None, "attempts": imported.attempts})
        return
    print_text(f"{imported.run}: {imported.attempts} attempts\nlook at it: evokernel report {imported.run}")
    if imported.bank:
        print_text(f"learn from it: evokernel run --memory {imported.bank}")
