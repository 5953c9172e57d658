"""Starts Python with this project's modules and nothing of the user's: no variables, no site files, no folder of theirs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import evokernel

BOOT = "import sys; sys.path[:] = sys.argv[1].splitlines(); from {module} import {function}; {function}()"  # json takes 10 ms


def isolated_command(module: str, function: str, *arguments: str) -> list[str]:
    """What starts `function` of a module; it finds its arguments from `sys.argv[2]` on."""
    here = str(Path(str(evokernel.__file__)).parent.parent)
    path = "\n".join([here, *(os.path.abspath(entry) for entry in sys.path)])
    return [sys.executable, "-I", "-S", "-B", "-c", BOOT.format(module=module, function=function), path, *arguments]
