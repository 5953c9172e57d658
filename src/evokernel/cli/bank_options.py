"""What the commands that work on a memory bank share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.output import emit, tell

if TYPE_CHECKING:
    from evokernel.core.bank_uri import BankLocation
    from evokernel.core.protocols import Embedder
    from evokernel.memory.reader import Archive

KINDS = ("api", "practice", "experience", "trace")


class BankType(click.ParamType):  # type: ignore[type-arg]
    """A bank's place: a file, or `postgresql://…`, whose password goes no further than this process."""

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
    help="The bank: a file, or postgresql://… [evokernel-memory.db]",
)
embedder_option = click.option("--embedder", default="hash", metavar="NAME", help="What the bank's vectors were made with. [hash]")


def archive(path: BankLocation) -> Archive:
    """The bank, for reading."""
    from evokernel.memory.bank import Bank

    return Bank.read(path)


def made(embedder: str) -> Embedder:
    """The embedder a bank was made with."""
    from evokernel.core.plugins import make_plugin

    found: Embedder = make_plugin("embedder", embedder)
    return found


def say(value: dict[str, Any], words: str, as_json: bool) -> None:
    """What was done."""
    emit(value) if as_json else tell(words)
