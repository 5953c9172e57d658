"""Starts a compiler in a sandbox: the process enters the sandbox, then executes the compiler. Its children die with its process group."""

from __future__ import annotations

import marshal
import os
import sys

from evokernel.sandbox import syscalls
from evokernel.sandbox.apply import enter_sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from evokernel.sandbox.profiles import SandboxPlan

PR_SET_PDEATHSIG, SIGKILL = 1, 9
SANDBOX_FAILED = 125
"""The exit code if the sandbox cannot be entered or the command cannot be started."""


def make_sandboxed_command(plan: SandboxPlan, command_line: list[str], parent: int = 0) -> list[str]:
    """Return a command line that runs a command in the sandbox; with `parent`, it ends when the thread of that process that started it
    ends.

    The plan is passed in marshal format: importing json would take longer than entering the sandbox.
    """
    from evokernel.sandbox import isolated_python  # imported in the verifier only

    return isolated_python.isolated_command(__name__, "main", str(parent), marshal.dumps(plan).hex(), *command_line)


def main() -> None:
    """Enter the sandbox and execute the command."""
    parent, plan, command_line = int(sys.argv[2]), marshal.loads(bytes.fromhex(sys.argv[3])), sys.argv[4:]
    if parent and sys.platform == "linux":
        syscalls.invoke_libc("prctl", PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(0)
    try:
        enter_sandbox(plan, ())
    except OSError as error:
        exit_with_error(f"cannot enter the sandbox: {error}")
    try:
        os.execv(command_line[0], command_line)
    except OSError as error:
        exit_with_error(f"cannot start {command_line[0]}: {error.strerror}")


def exit_with_error(message: str) -> None:
    """Write one line to stderr in place of the command's output, and exit."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()
    os._exit(SANDBOX_FAILED)
