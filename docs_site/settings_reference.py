"""The reference page of settings, made from the settings of a run and the arguments of plug-ins."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any

from command_reference import escape_cell
from pydantic.fields import FieldInfo

from evokernel.core.config import PARTS, RunConfig
from evokernel.core.errors import UserError
from evokernel.core.plugins import find_plugin, plugin_names
from evokernel.core.records import VerificationSettings

HEAD = """# Settings

Settings determine a run. Give them on the command line with `--set KEY=VALUE`, in a TOML file with `--config FILE`, or
as keywords of `ek.run`. [Concepts](../concepts.md#settings) explains the most important ones.

## Run

| setting | default | meaning |
|---|---|---|
"""
PART_HEAD = "Settings of a plug-in have its part as a prefix: `--set {part}.key=value`. `--set {part}.name=NAME` chooses it."


def settings_page() -> str:
    """Return the page with the settings of a run and of all plug-ins."""
    fields = sorted(RunConfig.model_fields.items(), key=lambda entry: entry[0] in VerificationSettings.model_fields)  # own ones first
    rows = (f"| `{name}` | {format_default(field)} | {escape_cell(field.description or '')} |" for name, field in fields)
    return HEAD + "\n".join([*rows, "", *(line for part in PARTS for line in part_section(part))])


def format_default(field: FieldInfo) -> str:
    """Return the default of a setting; a part is shown by the name of its plug-in."""
    value = field.default["name"] if isinstance(field.default, dict) and "name" in field.default else field.default
    return format_value(value)


def format_value(value: Any) -> str:
    """Return a value as TOML would write the simple ones; nothing for an empty one."""
    if value in ("", None, {}, (), []):
        return ""
    return f"`{json.dumps(value) if isinstance(value, bool | tuple | list | dict) else value}`"


def part_section(part: str) -> Iterator[str]:
    """Yield the lines of all plug-ins of one part."""
    yield from (f"## {part.capitalize()}", "", PART_HEAD.format(part=part), "")
    for name in plugin_names(part):
        yield from (f"### {part} {name}", "")
        try:
            plugin = find_plugin(part, name)
        except UserError as error:
            yield from (f"Not available when this page was made: {error}", "")
            continue
        yield from plugin_lines(plugin)


def plugin_lines(plugin: Any) -> Iterator[str]:
    """Yield the description of a plug-in and the table of its settings."""
    yield from (format_docstring(inspect.getdoc(plugin) or ""), "")
    settings = [one for one in inspect.signature(plugin).parameters.values() if one.default is not one.empty]
    if not settings:
        yield from ("It has no settings.", "")
        return
    yield from ("| setting | default |", "|---|---|")
    yield from (f"| `{one.name}` | {format_value(one.default)} |" for one in settings)
    yield ""


def format_docstring(text: str) -> str:
    """Return a docstring as Markdown: an indented group with a heading becomes a bold word and its text."""
    return "\n".join(f"\n**{line}**\n" if has_group(text, line) else line.strip() for line in text.split("\n"))


def has_group(text: str, line: str) -> bool:
    """Return whether a line is a heading: not indented, and followed by an indented line."""
    return bool(line) and not line.startswith(" ") and f"{line}\n    " in text
