"""Command line of a Python process isolated from the user's environment: no PYTHON variables, site files or current folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import evokernel

BOOT = "import sys; sys.path[:] = sys.argv[1].splitlines(); from {module} import {function}; {function}()"  # json would take 10 ms


def isolated_command(module: str, function: str, *arguments: str) -> list[str]:
    """Return the command that calls `function` of a module; the arguments begin at `sys.argv[2]`."""
    here = str(Path(str(evokernel.__file__)).parent.parent)
    path = "\n".join([here, *(os.path.abspath(entry) for entry in sys.path)])
    return [sys.executable, "-I", "-S", "-B", "-c", BOOT.format(module=module, function=function), path, *arguments]
