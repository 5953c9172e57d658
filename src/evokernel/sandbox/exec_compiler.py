"""Starts a compiler inside a jail: the process goes in, then becomes the compiler. What it started dies with its process group."""

from __future__ import annotations

import marshal
import os
import sys

from evokernel.sandbox import syscalls
from evokernel.sandbox.apply import enter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from evokernel.sandbox.profiles import Plan

DIE_WITH_PARENT, KILLED = 1, 9
CANNOT = 125
"""The exit code of a jail that could not be made."""


def command(plan: Plan, words: list[str], parent: int = 0) -> list[str]:
    """What runs a command inside the jail, and ends it when the thread that started it ends, if `parent` says whose that is.

    The plan goes along in marshal's form: importing json would cost more than the jail.
    """
    from evokernel.core import isolated_python  # the judge's side, of which the process itself need not know

    return isolated_python.isolated_command(__name__, "main", str(parent), marshal.dumps(plan).hex(), *words)


def main() -> None:
    """In the process that is to become the command."""
    parent, plan, words = int(sys.argv[2]), marshal.loads(bytes.fromhex(sys.argv[3])), sys.argv[4:]
    if parent and sys.platform == "linux":
        syscalls.checked("prctl", DIE_WITH_PARENT, KILLED, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(0)
    try:
        enter(plan, ())
    except OSError as error:
        give_up(f"cannot enter the jail: {error}")
    try:
        os.execv(words[0], words)
    except OSError as error:
        give_up(f"cannot start {words[0]}: {error.strerror}")


def give_up(why: str) -> None:
    """A line for whoever reads what the command would have said."""
    sys.stderr.write(f"{why}\n")
    sys.stderr.flush()
    os._exit(CANNOT)
