"""From figures to pages: one environment of templates in which everything is escaped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from evokernel.reports import formatting, page

HERE = Path(__file__).parent
Query = Mapping[str, str]


@dataclass(frozen=True)
class Page:
    """A view as parts: each is put into the page by its name, and sent again when it changes while someone looks."""

    title: str
    view: str
    query: dict[str, str]
    """What the address says, as far as it was understood."""
    parts: dict[str, Markup]
    cells: dict[str, Markup] = field(default_factory=dict)
    """Parts of the part `grid`, sent one by one."""
    layout: str = "page.html.j2"
    live: bool = True

    def changes(self, before: Page) -> dict[str, str]:
        """What differs from an earlier state of the same view."""
        sent = {name: part for name, part in self.parts.items() if name != "grid" and part != before.parts.get(name)}
        if self.cells.keys() != before.cells.keys():
            sent["grid"] = self.parts["grid"]
        elif self.cells:
            sent |= {name: cell for name, cell in self.cells.items() if cell != before.cells[name]}
        return {name: str(part) for name, part in sent.items()}


class Links:
    """Where views are. `to` gives an empty text where there is nothing to lead to."""

    is_static = False
    assets = "/static/"

    def to(self, view: str, /, **state: object) -> str:
        """The address of a view in a state; what is empty is left out."""
        told = {name: value for name, value in state.items() if value not in ("", None)}
        return f"/{'' if view == 'runs' else view}" + (f"?{urlencode(told)}" if told else "")


@cache
def environment() -> Environment:
    """Ours and the reports' templates."""
    made = Environment(
        loader=FileSystemLoader([HERE / "templates", page.TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["words"] = formatting
    made.filters["link"] = link
    return made


def link(text: object, address: str, class_: str = "") -> Markup:
    """A link, or the bare text where the address is empty."""
    if not address:
        return escape(text)
    return Markup('<a href="{}"{}>{}</a>').format(address, Markup(' class="{}"').format(class_) if class_ else "", text)


def part(name: str, links: Links, /, **values: Any) -> Markup:
    """One template of ours, filled in."""
    return Markup(environment().get_template(name).render(links=links, **values))


def whole(shown: Page, links: Links, /, **values: Any) -> str:
    """A page with everything around it."""
    return environment().get_template(shown.layout).render(page=shown, links=links, **values)
