"""What commands write: JSON for programs, aligned tables for people, warnings to stderr."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """`--json`, which every command takes."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON value on stdout, nothing else there.")(command)


def emit(value: Any) -> None:
    """The one JSON value of a command."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


class StderrHandler(logging.Handler):
    """Writes to whatever stderr is at that moment, so that a live display can put the line above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"{record.levelname.lower()}: {record.getMessage()}\n")
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
