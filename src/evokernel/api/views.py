"""How results look: the same tables as text, in rich and as HTML in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from evokernel.reports.tables import Table
from evokernel.reports.text_tables import format_report_table, replace_control_characters

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

CELL_STYLE = "padding:2px 10px;vertical-align:top;white-space:nowrap;text-align:"
NOTE_STYLE = "color:gray;font-size:90%;max-width:60em;margin:2px 0 8px 0"


class TableView(ABC):
    """A result that is shown as tables: `repr()`, `rich.print()` and notebooks show the same content."""

    @abstractmethod
    def tables(self) -> list[Table]:
        """Return the tables that show this result, as data."""

    def note(self) -> str:
        """Return a text that follows the tables; empty if there is none."""
        return ""

    def __repr__(self) -> str:
        parts = [format_report_table(table) for table in self.tables()]
        return replace_control_characters("\n\n".join(filter(None, [*parts, self.note()])))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        from rich.padding import Padding
        from rich.text import Text

        yield from map(rich_table, self.tables())
        if text := self.note():
            yield Padding(Text(replace_control_characters(text)), (0, 0, 0, 2))

    def _repr_html_(self) -> str:
        note = f"<pre>{escape(self.note())}</pre>" if self.note() else ""
        return "".join(map(html_table, self.tables())) + note


def rich_table(table: Table) -> Any:
    """Return a table for rich."""
    from rich.table import Table as RichTable
    from rich.text import Text

    title = Text(replace_control_characters(table.title), style="bold")
    result = RichTable(title=title, title_justify="left", caption=table.caption or None, caption_justify="left")
    for column in table.columns:
        result.add_column(column.name, justify="right" if column.is_right_aligned else "left", overflow="fold")
    for row in table.format_rows():
        result.add_row(*(Text(replace_control_characters(cell)) for cell in row))
    return result


def html_table(table: Table) -> str:
    """Return a table as HTML that needs no style sheet."""
    sides = ["right" if column.is_right_aligned else "left" for column in table.columns]
    head = html_row("th", [column.name for column in table.columns], sides)
    body = "".join(html_row("td", row, sides) for row in table.format_rows())
    caption = f'<p style="{NOTE_STYLE}">{escape(table.caption)}</p>' if table.caption else ""
    return f"<div><b>{escape(table.title)}</b><table><thead>{head}</thead><tbody>{body}</tbody></table>{caption}</div>"


def html_row(tag: str, cells: Sequence[str], sides: Sequence[str]) -> str:
    """Return one row of an HTML table."""
    parts = (f'<{tag} style="{CELL_STYLE}{side}">{escape(cell)}</{tag}>' for cell, side in zip(cells, sides))
    return f"<tr>{''.join(parts)}</tr>"
