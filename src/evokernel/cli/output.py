"""Output of the commands: JSON for programs, aligned tables for people, warnings on stderr."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from evokernel.reports.text_tables import format_pairs as format_pairs
from evokernel.reports.text_tables import format_table as format_table
from evokernel.reports.text_tables import replace_control_characters as replace_control_characters
from evokernel.reports.text_tables import terminal_width as terminal_width
from evokernel.reports.text_tables import wrap_text as wrap_text

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
