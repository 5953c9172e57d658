"""Output of the commands: JSON for programs, aligned tables for people, warnings on stderr."""

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
MIN_LAST_WIDTH = 14  # minimum width of the last column of a table
TERMS_EPILOG = "Terms are explained in docs/glossary.md and by 'evokernel glossary'."
F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """Add the option `--json`, which every command has."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON value on stdout and nothing else.")(command)


def size_option(command: F) -> F:
    """Add the option `--size`."""
    text = "Size of the tasks: laptop, or full as in published benchmarks. [full on accelerators, laptop on cpp]"
    return click.option("--size", type=click.Choice(["laptop", "full"]), help=text)(command)


def fail_under_option(command: F) -> F:
    """Add the option `--fail-under`."""
    text = "Exit code 1 if a smaller share of the tasks has a correct kernel at the end: 0.8 for 80 %. [exit code 1 only if none has]"
    return click.option("--fail-under", type=click.FloatRange(0, 1), default=0.0, metavar="SHARE", help=text)(command)


def print_json(value: Any) -> None:
    """Print the JSON value of a command."""
    click.echo(json.dumps(value, indent=2, allow_nan=False))


def print_text(text: str, err: bool = False) -> None:
    """Print text for people. It may quote kernels and replies, so control characters are replaced."""
    click.echo(replace_control_characters(text), err=err)


def replace_control_characters(text: str) -> str:
    """Replace every control character except line ends and tabs, so that quoted text cannot control the terminal."""
    return CONTROL.sub("\ufffd", text)


class StderrHandler(logging.Handler):
    """Writes to the current stderr, so that a live display can print the line above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(replace_control_characters(f"{record.levelname.lower()}: {record.getMessage()}") + "\n")
        sys.stderr.flush()


def log_to_stderr(verbose: bool) -> None:
    """Log warnings, or all messages of evokernel if `verbose`; installs the handler once per process."""
    logger = logging.getLogger("evokernel")
    logger.setLevel(logging.INFO if verbose else logging.WARNING)
    if not any(isinstance(handler, StderrHandler) for handler in logger.handlers):
        logger.addHandler(StderrHandler())


def terminal_width() -> int | None:
    """Width of the terminal on stdout; None for files and pipes, where lines are not wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wrap_text(text: str, prefix: str = "") -> str:
    """The text after `prefix`, wrapped at the width of the terminal; further lines are indented below the first."""
    width = terminal_width()
    if width is None or len(prefix) + len(text) <= width:
        return f"{prefix}{text}".rstrip()
    return textwrap.fill(
        text, width, initial_indent=prefix, subsequent_indent=" " * len(prefix), break_long_words=False, break_on_hyphens=False
    )


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]], align_right: Sequence[bool] = ()) -> str:
    """A table with aligned columns; columns flagged in `align_right` are aligned on the right.

    If the terminal is too narrow, headings are split over several lines, gaps shrink, and the last column is cut.
    """
    body, width = [list(row) for row in rows], terminal_width()
    flags = [*align_right, *[False] * (len(header) - len(align_right))]
    single_line = [[name] for name in header]
    split = [*(split_heading(name) for name in header[:-1]), *single_line[-1:]]
    for heads, gap in ((single_line, "  "), (split, "  "), (split, " ")):
        widths = [max(map(len, [*head, *(row[n] for row in body)])) for n, head in enumerate(heads)]
        last_width = widths[-1] if width is None else width - sum(widths[:-1]) - len(gap) * (len(widths) - 1)
        if last_width >= min(widths[-1], MIN_LAST_WIDTH):
            break
    widths[-1] = min(widths[-1], max(last_width, MIN_LAST_WIDTH))

    def line(row: Sequence[str]) -> str:
        last = row[-1] if len(row[-1]) <= widths[-1] else row[-1][: widths[-1] - 1].rstrip() + "…"
        cells = [cell.rjust(size) if flag else cell.ljust(size) for cell, size, flag in zip([*row[:-1], last], widths, flags)]
        return gap.join(cells).rstrip()

    height = max(map(len, heads))
    heading_rows = [[([""] * (height - len(head)) + head)[n] for head in heads] for n in range(height)]
    return "\n".join([*map(line, heading_rows), gap.join("─" * size for size in widths), *map(line, body)])


def split_heading(heading: str) -> list[str]:
    """A heading split over several lines: `first`, `correct`."""
    return re.findall(r"[^ →-]+[→-]?", heading) or [heading]


def format_pairs(rows: Iterable[tuple[str, str]]) -> str:
    """One line for each label and value, with the values aligned."""
    lines = list(rows)
    width = max((len(label) for label, _ in lines), default=0)
    return "\n".join(wrap_text(text, f"{label.ljust(width)}  ") for label, text in lines)
