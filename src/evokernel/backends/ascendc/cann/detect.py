"""Detects CANN on this machine: nothing, the toolchain, or the toolchain and an NPU. It imports no part of CANN."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

NONE, TOOLCHAIN, NPU = "none", "toolchain", "npu"
HOME_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_INSTALL_PATH")
"""The official variable, then the variable of older installers."""
SETUP_SCRIPTS = (
    "/usr/local/Ascend/ascend-toolkit/set_env.sh",
    "~/Ascend/ascend-toolkit/set_env.sh",
    "/usr/local/Ascend/cann/set_env.sh",
    "~/Ascend/cann/set_env.sh",
)
TOOLS = ("msopgen", "bisheng", "msprof", "msopprof", "npu-smi")
REQUIRED_TOOLS = ("msopgen", "bisheng")
PROFILERS = ("msprof", "msopprof")
DRIVER_FOLDERS = ("/usr/local/sbin", "/usr/local/bin")
RELEVANT_VARIABLES = (*HOME_VARIABLES, "PATH", "HOME", "PYTHONPATH")
"""Variables that determine the result."""
NOT_REPORTED = "not reported"
NPU_SMI_TIMEOUT_S, TORCH_TIMEOUT_S = 20.0, 90.0
TORCH_QUERY = "import sys, torch_npu; sys.exit(0 if torch_npu.npu.is_available() else 1)"
NPU_SMI_ROW = re.compile(r"^\|\s*\d+\s+(?:Ascend)?(\d{3}[A-Za-z]?\d?[\w-]*)\s*\|", re.MULTILINE)
VERSION_LINE = re.compile(r"^\s*(?:runtime_running_version|toolkit_running_version|Version|version)\s*=\s*\[?([^\]\s]+)", re.MULTILINE)


class Installation(NamedTuple):
    """The detected parts of CANN, and the fix for missing ones."""

    level: str
    """`none`, `toolchain` (compile, debug on the CPU, simulate) or `npu` (run and measure)."""
    home: Path | None
    tools: dict[str, str | None]
    """Path of each tool by name, or None."""
    versions: dict[str, str]
    fix: str
    """One line with the fix for missing parts; "" if nothing is missing."""


INSTALLATIONS: dict[tuple[str | None, ...], Installation] = {}


def detect_installation() -> Installation:
    """The installation of this process's environment, cached because querying an NPU takes seconds."""
    key = tuple(os.environ.get(name) for name in RELEVANT_VARIABLES)
    if key not in INSTALLATIONS:
        INSTALLATIONS[key] = inspect_environment(os.environ)
    return INSTALLATIONS[key]


def inspect_environment(environment: Mapping[str, str], scripts: Sequence[str] = SETUP_SCRIPTS) -> Installation:
    """Detect the installation without the cache."""
    home, trouble = find_home(environment, scripts)
    tools = {name: find_tool(name, environment, home) for name in TOOLS}
    if home is None:
        return Installation(NONE, None, tools, {}, trouble)
    versions = {"cann": read_version(home)}
    if lacking := [name for name in REQUIRED_TOOLS if not tools[name]]:
        fix = f"source {home.parent / 'set_env.sh'}, or install the CANN toolkit again"
        return Installation(NONE, home, tools, versions, f"CANN at {home} is incomplete ({' and '.join(lacking)} missing): {fix}")
    cards, trouble = query_npus(environment, tools["npu-smi"])
    if not cards:
        return Installation(TOOLCHAIN, home, tools, versions, trouble)
    versions["npu"] = cards
    if not any(tools[name] for name in PROFILERS):
        why = f"the machine has an NPU but no profiler to time kernels: install msprof or msopprof into {home / 'bin'}"
        return Installation(TOOLCHAIN, home, tools, versions, why)
    return Installation(NPU, home, tools, versions, "")


def find_home(environment: Mapping[str, str], scripts: Sequence[str]) -> tuple[Path | None, str]:
    """The folder of the toolkit, or None and the reason."""
    for name in HOME_VARIABLES:
        if value := environment.get(name):
            if Path(value).is_dir():
                return Path(value), ""
            return None, f"{name}={value} does not exist: source the set_env.sh of the installed CANN toolkit, or unset the variable"
    there = [script for script in map(os.path.expanduser, scripts) if Path(script).is_file()]
    if there:
        return None, f"CANN is installed but not set up in this shell: source {there[0]}"
    return None, f"no CANN toolkit: install it, then source its set_env.sh (usually {scripts[0]})"


def find_tool(name: str, environment: Mapping[str, str], home: Path | None) -> str | None:
    """Path of a tool: on PATH, or in the folders of the toolkit and the driver."""
    if path := shutil.which(name, path=environment.get("PATH", os.defpath)):
        return path
    places = [home / "bin", home / f"{platform.machine()}-linux" / "ccec_compiler" / "bin"] if home else []
    if name == "npu-smi":
        places += [Path(place) for place in DRIVER_FOLDERS]
    return next((path for place in places if (path := shutil.which(name, path=str(place)))), None)


def read_version(home: Path) -> str:
    """The version in the toolkit's own files."""
    for path in version_files(home):
        try:
            text = path.read_text(errors="replace")
        except OSError:
            continue
        if match := VERSION_LINE.search(text):
            return match[1].partition(":")[2] or match[1]
    return NOT_REPORTED


def version_files(home: Path) -> Iterator[Path]:
    yield home / "version.cfg"
    yield from sorted(home.glob("*-linux/ascend_toolkit_install.info"))
    yield home / "ascend_toolkit_install.info"
    yield home / "compiler" / "version.info"


def query_npus(environment: Mapping[str, str], npu_smi: str | None) -> tuple[str, str]:
    """Number and name of the NPUs, or "" and the reason why none is usable."""
    if npu_smi:
        code, text = run_query([npu_smi, "info"], environment, NPU_SMI_TIMEOUT_S)
        if code == 0:
            names = NPU_SMI_ROW.findall(text)
            return (f"{len(names)} x {names[0]}" if names else NOT_REPORTED), ""
        npu_smi_status = f"`npu-smi info` {'does not answer' if code is None else f'failed with exit code {code}'}"
    else:
        npu_smi_status = "npu-smi is not installed"
    if run_query([sys.executable, "-c", TORCH_QUERY], environment, TORCH_TIMEOUT_S)[0] == 0:
        return NOT_REPORTED, ""
    return (
        "",
        f"no NPU was found ({npu_smi_status}, and torch_npu reports none): install the driver, or map /dev/davinci* into the container",
    )


def run_query(command: Sequence[str], environment: Mapping[str, str], limit_s: float) -> tuple[int | None, str]:
    """Exit code and output of a command; None for the code if it did not answer."""
    try:
        process = subprocess.run(
            command, env=dict(environment), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=limit_s
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, ""
    return process.returncode, process.stdout
