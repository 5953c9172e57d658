"""`evokernel bundle`: a run for a machine without a network, there and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from evokernel.cli.bank_options import BankType
from evokernel.cli.output import emit, json_option, pairs, tell
from evokernel.core.errors import UserError

if TYPE_CHECKING:
    from evokernel.core.bank_uri import BankLocation

PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_28_x86_64")


@click.group()
def command() -> None:
    """Pack a run for a machine without a network, and bring back what it found.

    \b
    Examples:
      evokernel bundle pack run.tar.gz -- --backend cuda --tasks starter --generator from_files
      evokernel bundle back results.tar.gz
    """


@command.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENTS OF run]")
@click.option("--python", default="3.12", show_default=True, help="The other machine's version of Python.")
@click.option("--platform", "platforms", multiple=True, metavar="TAG", help=f"The other machine's, as pip names it. [{PLATFORMS[0]}]")
@click.option("--there", default="numpy,torch,triton", show_default=True, help="Packages it has already.")
@click.option(
    "--task", "tasks", multiple=True, type=click.Path(path_type=Path), help="A task file or folder to take along; there: tasks/NAME."
)
@click.option("--memory", "bank", type=BankType(), metavar="PATH", help="A memory bank to take along, as a file.")
@json_option
def pack(
    out: Path,
    arguments: tuple[str, ...],
    python: str,
    platforms: tuple[str, ...],
    there: str,
    tasks: tuple[Path, ...],
    bank: BankLocation | None,
    as_json: bool,
) -> None:
    """Everything `evokernel run` needs in one file: unpack it there, and call run.sh.

    \b
    Examples:
      evokernel bundle pack run.tar.gz -- --backend triton --tasks starter --budget 5
      evokernel bundle pack run.tar.gz --task my_ops --memory evokernel-memory.db -- --backend cuda --tasks tasks/my_ops
      evokernel bundle pack run.tar.gz --python 3.11 --platform manylinux2014_aarch64 -- --backend cpp
    """
    if bank is not None and not isinstance(bank, Path):
        raise UserError(f"a bundle takes a bank along as a file, not {bank}: evokernel memory export it, import that into a file")
    from evokernel.experiments.bundle import RESULTS
    from evokernel.experiments.bundle import pack as packed

    tell("packing; pip fetches what the other machine needs ...", err=True)
    found = packed(out, arguments, tasks, bank, python, platforms or PLATFORMS, there.split(","))
    if as_json:
        emit({**found._asdict(), "file": str(found.file)})
        return
    tell(pairs([("file", f"{found.file}, {found.nbytes / 1e6:.1f} MB"), ("packages", ", ".join(found.packages))]))
    tell(f"\nthere:  tar -xzf {out.name} && ./evokernel-bundle/run.sh\nback:   evokernel bundle back evokernel-bundle/{RESULTS}")


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--into", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Where runs are kept.")
@json_option
def back(file: Path, into: Path, as_json: bool) -> None:
    """Unpack what run.sh left on the other machine, as a run like any other.

    \b
    Examples:
      evokernel bundle back results.tar.gz
      evokernel bundle back results.tar.gz --into elsewhere --json
    """
    from evokernel.experiments.bundle import back as brought

    found = brought(file, into)
    if as_json:
        emit({"run": str(found.run), "bank": str(found.bank) if found.bank else None, "attempts": found.attempts})
        return
    tell(f"{found.run}: {found.attempts} attempts\nlook at it: evokernel report {found.run}")
    if found.bank:
        tell(f"learn from it: evokernel run --memory {found.bank}")
