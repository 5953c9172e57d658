"""What commands write: JSON for programs, aligned tables for people, warnings to stderr."""

from __future__ import annotations

import json
import logging
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
LEAST_LAST = 14  # columns a table's last column keeps, however narrow the terminal
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


def room() -> int | None:
    """How wide the terminal on stdout is; None for files and pipes, where a line is as long as it is."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def folded(text: str, before: str = "") -> str:
    """A sentence after `before`, broken between words where the terminal ends, further lines below the first."""
    columns = room()
    if columns is None or len(before) + len(text) <= columns:
        return f"{before}{text}".rstrip()
    return textwrap.fill(
        text, columns, initial_indent=before, subsequent_indent=" " * len(before), break_long_words=False, break_on_hyphens=False
    )


def draw(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool] = ()) -> str:
    """An aligned table in plain text; columns flagged `right` line up on the right.

    On a terminal too narrow for it headings go over several lines, columns move together, and the last one is cut.
    """
    body, columns = [list(row) for row in rows], room()
    flags = [*right, *[False] * (len(header) - len(right))]
    whole = [[name] for name in header]
    apart = [*(broken(name) for name in header[:-1]), *whole[-1:]]
    for heads, gap in ((whole, "  "), (apart, "  "), (apart, " ")):
        widths = [max(map(len, [*head, *(row[n] for row in body)])) for n, head in enumerate(heads)]
        left = widths[-1] if columns is None else columns - sum(widths[:-1]) - len(gap) * (len(widths) - 1)
        if left >= min(widths[-1], LEAST_LAST):
            break
    widths[-1] = min(widths[-1], max(left, LEAST_LAST))

    def line(row: Sequence[str]) -> str:
        last = row[-1] if len(row[-1]) <= widths[-1] else row[-1][: widths[-1] - 1].rstrip() + "…"
        cells = [cell.rjust(width) if flag else cell.ljust(width) for cell, width, flag in zip([*row[:-1], last], widths, flags)]
        return gap.join(cells).rstrip()

    height = max(map(len, heads))
    tops = [[([""] * (height - len(head)) + head)[n] for head in heads] for n in range(height)]
    return "\n".join([*map(line, tops), gap.join("─" * width for width in widths), *map(line, body)])


def broken(heading: str) -> list[str]:
    """A heading over several lines: `first`, `correct`."""
    return re.findall(r"[^ →-]+[→-]?", heading) or [heading]


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Label and figure, one per line."""
    lines = list(rows)
    width = max((len(label) for label, _ in lines), default=0)
    return "\n".join(folded(text, f"{label.ljust(width)}  ") for label, text in lines)
