"""Describes the machine and the versions that a run depends on."""

from __future__ import annotations

import platform
from pathlib import Path

from evokernel import __version__
from evokernel.core.backend import Backend


def toolchain_versions(backend: Backend) -> dict[str, str]:
    """Return the versions of the toolchain on this machine."""
    return {**package_versions(), **backend.versions()}


def package_versions() -> dict[str, str]:
    """Return the versions of EvoKernel and Python that run the loop."""
    return {"evokernel": __version__, "python": platform.python_version()}


def describe_hardware() -> dict[str, str]:
    """Describe the hardware of this machine in words."""
    hardware = {"machine": platform.machine(), "system": f"{platform.system()} {platform.release()}"}
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        hardware |= {"cpu": models[0]} if models else {}
        hardware["cores"] = str(sum(line.startswith("processor") for line in cpuinfo.read_text().splitlines()))
    return hardware
