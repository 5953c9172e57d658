"""Options and helpers that the commands on a memory bank share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.output import print_json, print_text

if TYPE_CHECKING:
    from evokernel.core.bank_uri import BankLocation
    from evokernel.core.protocols import Embedder
    from evokernel.memory.reader import BankReader

KINDS = ("api", "practice", "experience", "trace")


class BankType(click.ParamType):  # type: ignore[type-arg]
    """The location of a bank: a file or `postgresql://…`. The password never leaves this process."""

    name = "bank"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> BankLocation:
        from evokernel.core.bank_uri import parse_location

        return parse_location(value)


bank_option = click.option(
    "--memory",
    "path",
    type=BankType(),
    default="evokernel-memory.db",
    metavar="PATH|URL",
    help="Memory bank: a file, or postgresql://… [evokernel-memory.db]",
)
embedder_option = click.option("--embedder", default="hash", metavar="NAME", help="Embedder that the bank was built with. [hash]")


def open_bank(path: BankLocation) -> BankReader:
    """Open the bank for reading."""
    from evokernel.memory.bank import Bank

    return Bank.open_reader(path)


def make_embedder(name: str) -> Embedder:
    """The embedder with this name."""
    from evokernel.core.plugins import make_plugin

    plugin: Embedder = make_plugin("embedder", name)
    return plugin


def print_result(value: dict[str, Any], text: str, as_json: bool) -> None:
    """Print the result of a command, as JSON or as text."""
    print_json(value) if as_json else print_text(text)
