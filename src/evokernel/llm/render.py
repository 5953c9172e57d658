"""Render prompt files strictly: a missing value is an error, never a blank."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError

from evokernel.core.errors import UserError


def render_prompt(path: Path, **values: object) -> str:
    """The prompt file with the values inserted. It may include files of its folder; text in values is never read as a template."""
    try:
        return jinja_environment(path.parent).get_template(path.name).render(**values)
    except TemplateError as error:
        raise UserError(f"prompt file {path}: {error.message}; correct the file") from error


def fence(text: str, info: str = "") -> str:
    """The text as a fenced Markdown block whose fence is longer than any inside the text."""
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{ticks}{info}\n{text.rstrip()}\n{ticks}"


def one_line(text: str, limit: int = 200) -> str:
    """The text on one line, truncated with an ellipsis."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


@lru_cache(maxsize=32)
def jinja_environment(folder: Path) -> Environment:
    """The Jinja environment of a prompt folder, cached so that each file is compiled once. Prompts are not HTML: nothing is escaped."""
    environment = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters.update(fence=fence, one_line=one_line)
    return environment
