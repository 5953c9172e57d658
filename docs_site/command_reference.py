"""The reference page of the command line, made from the help texts of the program."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from evokernel.cli.main import COMMANDS, cli

HEAD = """# Command line

Every command has `--help`; most have `--json`. Exit codes: 0 success, 1 negative result, 2 error to fix,
3 infrastructure failure, 130 interrupted. The [settings](settings.md) of a run are given with `--set`.
"""


def command_page() -> str:
    """Return the page with all commands."""
    context = click.Context(cli, info_name="evokernel")
    summary = ["| command | purpose |", "|---|---|", *(f"| [`{name}`](#evokernel-{name}) | {text} |" for name, text in COMMANDS.items())]
    sections = (line for name in COMMANDS for line in command_section(name, cli.get_command(context, name), context, 2))
    return "\n".join([HEAD, *summary, "", *sections])


def command_section(name: str, command: click.Command | None, parent: click.Context, level: int) -> Iterator[str]:
    """Yield the lines of one command and of its subcommands."""
    assert command is not None
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield from (f"{'#' * level} {context.command_path}", "", "```text", usage, "```", "")
    yield from format_help(command.help or "")
    yield from option_rows(command, context)
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            yield from command_section(child, command.get_command(context, child), context, level + 1)


def format_help(text: str) -> Iterator[str]:
    """Yield a help text as Markdown: click's literal paragraphs, such as examples, become code."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            head, *lines = paragraph.removeprefix("\b\n").split("\n")
            if head.endswith(":") and not head.startswith("  "):
                yield from (head, "")
            else:
                lines = [head, *lines]
            yield from ("```text", *inspect.cleandoc("\n".join(lines)).split("\n"), "```", "")
        else:
            yield from (escape_markdown(paragraph), "")


def option_rows(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the table of a command's options."""
    records = [record for parameter in command.params if (record := parameter.get_help_record(context))]
    if records:
        yield from ("| option | meaning |", "|---|---|")
        yield from (f"| `{names}` | {escape_cell(escape_markdown(meaning))} |" for names, meaning in records)
        yield ""


def escape_markdown(text: str) -> str:
    """Escape what Markdown would take for HTML, a link or emphasis."""
    return re.sub(r"([*_\[\]])", r"\\\1", text).replace("<", "&lt;")


def escape_cell(text: str) -> str:
    """Return a text for a cell of a table: in one line, with its bars escaped."""
    return " ".join(text.split()).replace("|", "\\|")
