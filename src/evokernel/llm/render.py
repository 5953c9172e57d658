"""Prompt files to text, strictly: a value that is missing is an error, never a blank."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError

from evokernel.core.errors import UserError


def render(path: Path, **values: object) -> str:
    """The prompt file filled with the values. It may include files of its own folder; text in values is never read as a template."""
    try:
        return environment(path.parent).get_template(path.name).render(**values)
    except TemplateError as error:
        raise UserError(f"prompt file {path}: {error.message}; correct the file") from error


def fence(text: str, info: str = "") -> str:
    """The text as a fenced block that nothing inside it can close."""
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{ticks}{info}\n{text.rstrip()}\n{ticks}"


def one_line(text: str, limit: int = 200) -> str:
    """The text on one line, cut with an ellipsis."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


@lru_cache(maxsize=32)
def environment(folder: Path) -> Environment:
    """One Jinja environment per folder of prompts, so that each file is compiled once. Prompts are no HTML: nothing is escaped."""
    made = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    made.filters.update(fence=fence, one_line=one_line)
    return made
