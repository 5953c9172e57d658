"""Tables and pairs of labels and values as aligned text, as wide as the terminal. Imports nothing heavy."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evokernel.reports.tables import Table

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
MIN_LAST_WIDTH = 14  # minimum width of the last column of a table


def replace_control_characters(text: str) -> str:
    """Replace every control character except line ends and tabs, so that quoted text cannot control the terminal."""
    return CONTROL.sub("\ufffd", text)


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


def format_report_table(table: Table, title: bool = True) -> str:
    """A report table as text; drops optional columns if the terminal is too narrow."""
    body = format_table(
        [column.name for column in table.columns], table.format_rows(), [column.is_right_aligned for column in table.columns]
    )
    width, narrower_table = terminal_width(), table.drop_column()
    if width and narrower_table and max(map(len, body.splitlines())) > width:
        return format_report_table(narrower_table, title)
    head = f"{table.title}\n" if title else ""
    return head + body + (f"\n{wrap_text(table.caption)}" if table.caption else "")
