"""Command lines: those that users give in settings, and those that messages tell users to type."""

from __future__ import annotations

import os
import shlex
import shutil

from evokernel.core.errors import UserError


def parse_command(command: str | list[str], setting: str, message_if_empty: str) -> list[str]:
    """Split a command into program and arguments. Raises UserError if it is empty, malformed or not installed."""
    try:
        words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    except ValueError as error:
        raise UserError(f"{setting} cannot be parsed ({error}). Quote it like a shell command, or give a list of words.") from error
    if not words:
        raise UserError(message_if_empty)
    if not shutil.which(words[0]):
        raise UserError(f"{setting}: program '{words[0]}' not found. Give its full path, or install it.")
    return words


def program_name() -> str:
    """Return how the user calls this program: `evokernel`, or what the script that started it says, such as `./dev exec evokernel`."""
    return os.environ.get("EVOKERNEL_COMMAND") or "evokernel"
