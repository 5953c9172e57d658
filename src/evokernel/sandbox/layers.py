"""Which sandbox layers are active on this machine: probed once per process, in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from evokernel.core.errors import UserError
from evokernel.sandbox import isolated_python, syscall_filter

VARIABLE = "EVOKERNEL_SANDBOX_DISABLE"
"""Names layers to disable, separated by commas: for tests, and for machines on which a layer prevents work."""
PROBE_TIMEOUT_S = 30


class Layer(NamedTuple):
    """One sandbox layer, and whether it is active on this machine."""

    name: str
    is_active: bool
    detail: str
    """How the layer works here, or why it is not active."""
    protection: str
    risk: str
    fix: str


@lru_cache
def load_descriptions() -> dict[str, dict[str, str]]:
    """Load `layers.toml`."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


def list_layers() -> tuple[Layer, ...]:
    """Return all layers, in the order of what they require."""
    disabled_names = {name.strip() for name in os.environ.get(VARIABLE, "").split(",")} - {""}
    if unknown := disabled_names - load_descriptions().keys():
        raise UserError(
            f"{VARIABLE} names an unknown sandbox layer: {', '.join(sorted(unknown))}; known layers: {', '.join(load_descriptions())}"
        )
    probe_results = probe_layers()
    disabled_state = (False, f"disabled by {VARIABLE}")
    states = {name: disabled_state if name in disabled_names else probe_results[name] for name in load_descriptions()}
    descriptions = {
        name: {**text, "fix": f"unset {VARIABLE}"} if name in disabled_names else text for name, text in load_descriptions().items()
    }
    return tuple(Layer(name, holds, detail, **descriptions[name]) for name, (holds, detail) in states.items())


def get_active_layers() -> dict[str, str]:
    """Return the active layers with how they work."""
    return {layer.name: layer.detail for layer in list_layers() if layer.is_active}


def describe_missing_layers() -> tuple[str, ...]:
    """Return one line for each layer that is not active, for outcomes."""
    return tuple(f"sandbox: layer {layer.name} is not active ({layer.detail})" for layer in list_layers() if not layer.is_active)


def require_all_layers() -> None:
    """Raise UserError if a layer is not active."""
    if missing := [f"{layer.name}: {layer.detail}" for layer in list_layers() if not layer.is_active]:
        raise UserError(
            f"the run requires all sandbox layers, but some are not active ({'; '.join(missing)}); 'evokernel doctor' suggests fixes"
        )


@lru_cache
def probe_layers() -> dict[str, tuple[bool, str]]:
    """Return for each layer whether it is active, and how or why not."""
    if sys.platform != "linux":
        return {name: (name == "limits", "" if name == "limits" else f"{sys.platform} does not support it") for name in load_descriptions()}
    command = isolated_python.isolated_command(
        "evokernel.sandbox.probe", "main", (syscall_filter.compile_filter("kernel") or b"").hex(), str(get_seccomp_number())
    )
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, env={"PATH": os.defpath})
    except (OSError, subprocess.TimeoutExpired) as error:
        return dict.fromkeys(load_descriptions(), (False, f"the probe failed: {error}"))
    lines = [line.split("\t") for line in process.stdout.splitlines()]
    unknown = dict.fromkeys(load_descriptions(), (False, "the probe process died"))
    return unknown | {name: (state == "active", detail) for name, state, detail in lines}


def get_seccomp_number() -> int:
    """Return the number of the seccomp system call, or 0 if the numbers of this processor are unknown."""
    table = syscall_filter.load_table()
    return table.calls["seccomp"] if table else 0
