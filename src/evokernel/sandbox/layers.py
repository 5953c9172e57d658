"""Which layers of the jail hold on this machine: tried once per process, in one of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from evokernel.core import isolated_python
from evokernel.core.errors import UserError
from evokernel.sandbox import syscall_filter

VARIABLE = "EVOKERNEL_WITHOUT"
"""Names layers to leave out, separated by commas: for tests, and for machines where one of them stands in the way."""
PROBE_S = 30


class Layer(NamedTuple):
    """One layer, and whether it holds here."""

    name: str
    holds: bool
    detail: str
    """How it holds, or why it does not."""
    gives: str
    lack: str
    fix: str


@lru_cache
def described() -> dict[str, dict[str, str]]:
    """What `layers.toml` says."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


def layers() -> tuple[Layer, ...]:
    """All layers, those first that need the least."""
    off = {name.strip() for name in os.environ.get(VARIABLE, "").split(",")} - {""}
    if unknown := off - described().keys():
        raise UserError(f"{VARIABLE} names no layer of the sandbox: {', '.join(sorted(unknown))}; there are: {', '.join(described())}")
    found = probed()
    switched_off = (False, f"switched off by {VARIABLE}")
    states = {name: switched_off if name in off else found[name] for name in described()}
    words = {name: {**text, "fix": f"unset {VARIABLE}"} if name in off else text for name, text in described().items()}
    return tuple(Layer(name, holds, detail, **words[name]) for name, (holds, detail) in states.items())


def holding() -> dict[str, str]:
    """The layers that hold, with how."""
    return {layer.name: layer.detail for layer in layers() if layer.holds}


def lacking() -> tuple[str, ...]:
    """One line per missing layer, for verdicts."""
    return tuple(f"sandbox: no {layer.name} ({layer.detail})" for layer in layers() if not layer.holds)


def require() -> None:
    """Refuses to go on where a layer is missing."""
    if missing := [f"no {layer.name}: {layer.detail}" for layer in layers() if not layer.holds]:
        raise UserError(f"the sandbox is required but incomplete here ({'; '.join(missing)}); 'evokernel doctor' says what to do")


@lru_cache
def probed() -> dict[str, tuple[bool, str]]:
    """Name to whether it holds, and how or why not."""
    if sys.platform != "linux":
        return {name: (name == "limits", "" if name == "limits" else f"{sys.platform} has no such thing") for name in described()}
    command = isolated_python.isolated_command(
        "evokernel.sandbox.probe", "main", (syscall_filter.program("kernel") or b"").hex(), str(number())
    )
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_S, env={"PATH": os.defpath})
    except (OSError, subprocess.TimeoutExpired) as error:
        return dict.fromkeys(described(), (False, f"cannot be tried: {error}"))
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    unknown = dict.fromkeys(described(), (False, "cannot be tried: the process that tries it died"))
    return unknown | {name: (state == "holds", detail) for name, state, detail in lines}


def number() -> int:
    """Of the system call that installs filters; 0 where calls have no known numbers."""
    known = syscall_filter.table()
    return known.calls["seccomp"] if known else 0
