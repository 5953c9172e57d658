"""Programs that users name in settings."""

from __future__ import annotations

import shlex
import shutil

from evokernel.core.errors import UserError


def parse_command(command: str | list[str], setting: str, missing: str) -> list[str]:
    """A program and its arguments, or one line on why it cannot be run: `missing`, where none is named."""
    try:
        listed = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    except ValueError as error:
        raise UserError(f"{setting} cannot be read ({error}): quote it like a shell line, or give a list of words") from error
    if not listed:
        raise UserError(missing)
    if not shutil.which(listed[0]):
        raise UserError(f"{setting}: there is no program '{listed[0]}'; give its full path or install it")
    return listed
