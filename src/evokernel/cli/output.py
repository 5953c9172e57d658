"""What commands write: JSON for programs, aligned tables for people, warnings to stderr."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """`--json`, which every command takes."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON value on stdout, nothing else there.")(command)


def emit(value: Any) -> None:
    """The one JSON value of a command."""
    click.echo(json.dumps(value, indent=2, allow_nan=False))


def tell(text: str, err: bool = False) -> None:
    """Text for people. Kernels and replies are in it, and may not steer the terminal."""
    click.echo(printable(text), err=err)


def printable(text: str) -> str:
    """The text with every control character but line ends and tabs replaced."""
    return CONTROL.sub("\ufffd", text)


class StderrHandler(logging.Handler):
    """Writes to whatever stderr is at that moment, so that a live display can put the line above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(printable(f"{record.levelname.lower()}: {record.getMessage()}") + "\n")
        sys.stderr.flush()


def log_to_stderr(verbose: bool) -> None:
    """Warnings, or everything of ours when asked; set up once per process."""
    logger = logging.getLogger("evokernel")
    logger.setLevel(logging.INFO if verbose else logging.WARNING)
    if not any(isinstance(handler, StderrHandler) for handler in logger.handlers):
        logger.addHandler(StderrHandler())


def draw(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool] = (), indent: str = "") -> str:
    """An aligned table in plain text; columns flagged `right` line up on the right."""
    table = [list(header), *[list(row) for row in rows]]
    widths = [max(len(row[n]) for row in table) for n in range(len(header))]
    flags = [*right, *[False] * (len(header) - len(right))]

    def line(row: Sequence[str]) -> str:
        cells = [cell.rjust(width) if flag else cell.ljust(width) for cell, width, flag in zip(row, widths, flags)]
        return (indent + "  ".join(cells)).rstrip()

    return "\n".join([line(table[0]), indent + "  ".join("─" * width for width in widths), *[line(row) for row in table[1:]]])


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Label and figure, one per line."""
    lines = list(rows)
    width = max((len(label) for label, _ in lines), default=0)
    return "\n".join(f"{label.ljust(width)}  {text}".rstrip() for label, text in lines)
