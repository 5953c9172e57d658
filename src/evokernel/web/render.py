"""Renders pages from Jinja templates; the one template environment escapes every value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from evokernel.reports import formatting, opportunities, page
from evokernel.web import tooltips
from evokernel.web.markdown import render_markdown

PACKAGE_FOLDER = Path(__file__).parent
Query = Mapping[str, str]


@dataclass(frozen=True)
class Page:
    """A page made of named parts. While a browser shows the page, the server sends each part again when it changes."""

    title: str
    view: str
    query: dict[str, str]
    """The URL parameters that the page understood."""
    parts: dict[str, Markup]
    cells: dict[str, Markup] = field(default_factory=dict)
    """Cells of the part `grid`, sent one by one."""
    layout: str = "page.html.j2"
    is_live: bool = True

    def changed_parts(self, before: Page) -> dict[str, str]:
        """The parts that differ from an earlier version of the same page."""
        changes = {name: part for name, part in self.parts.items() if name != "grid" and part != before.parts.get(name)}
        if self.cells.keys() != before.cells.keys():
            changes["grid"] = self.parts["grid"]
        elif self.cells:
            changes |= {name: cell for name, cell in self.cells.items() if cell != before.cells[name]}
        return {name: str(part) for name, part in changes.items()}


class Links:
    """URLs of the pages; `url_for` returns an empty string if a page does not exist."""

    is_static = False
    assets = "/static/"

    def url_for(self, view: str, /, **state: object) -> str:
        """The URL of a page with parameters; empty parameters are left out."""
        parameters = {name: value for name, value in count_from_one(state).items() if value not in ("", None)}
        return f"/{'' if view == 'runs' else view}" + (f"?{urlencode(parameters)}" if parameters else "")


def count_from_one(state: Mapping[str, object]) -> dict[str, object]:
    """The parameters of a URL with attempts counted from 1, as on the pages: `attempt=3` becomes `number=4`."""
    names = {"attempt": "number", "with": "with_number"}
    last_parts = {name: str(state.get(name, "")).rpartition("/")[2] for name in names}
    numbers = {names[name]: int(text) + 1 for name, text in last_parts.items() if text.isdecimal()}
    return {**{name: value for name, value in state.items() if names.get(name) not in numbers}, **numbers}


@cache
def template_environment() -> Environment:
    """The templates of the dashboard and of the reports."""
    environment = Environment(
        loader=FileSystemLoader([PACKAGE_FOLDER / "templates", page.TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["formatting"] = formatting
    environment.globals["tooltips"] = tooltips.TOOLTIPS
    environment.filters["link"] = format_link
    environment.filters["utc"] = format_utc
    environment.filters["markdown"] = render_markdown
    environment.filters["name_attempts"] = name_attempts
    environment.filters["speed"] = formatting.format_speed
    environment.filters["explain_bottleneck"] = tooltips.explain_bottleneck
    environment.filters["explain_cause"] = opportunities.explain_cause
    environment.filters["explain_total"] = tooltips.explain_total
    return environment


def format_link(text: object, url: str, class_: str = "") -> Markup:
    """A link, or the plain text if the URL is empty."""
    if not url:
        return escape(text)
    return Markup('<a href="{}"{}>{}</a>').format(url, Markup(' class="{}"').format(class_) if class_ else "", text)


def format_utc(seconds: float) -> str:
    """`2026-01-02 03:04:05 UTC`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def name_attempts(text: str, task: str) -> str:
    """A text with `attempt 4` for the id `task/3`: people count attempts from 1, ids count from 0."""
    return re.sub(rf"(?<![\w/:]){re.escape(task)}/(\d{{1,6}})(?![\w/])", lambda id: f"attempt {int(id[1]) + 1}", text)


def render_part(name: str, links: Links, /, **values: Any) -> Markup:
    """Render one template of the dashboard."""
    return Markup(template_environment().get_template(name).render(links=links, **values))


def render_page(page: Page, links: Links, /, **values: Any) -> str:
    """Render a complete page with its layout."""
    return template_environment().get_template(page.layout).render(page=page, links=links, **values)
