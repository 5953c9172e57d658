"""What of CANN is on this machine: nothing, the toolchain, or the toolchain and a card. Nothing of it is imported to find out."""

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

NONE, TOOLCHAIN, CARD = "none", "toolchain", "card"
HOMES = ("ASCEND_HOME_PATH", "ASCEND_INSTALL_PATH")
"""The official variable, then the one that older installers set."""
SCRIPTS = (
    "/usr/local/Ascend/ascend-toolkit/set_env.sh",
    "~/Ascend/ascend-toolkit/set_env.sh",
    "/usr/local/Ascend/cann/set_env.sh",
    "~/Ascend/cann/set_env.sh",
)
TOOLS = ("msopgen", "bisheng", "msprof", "msopprof", "npu-smi")
NEEDED = ("msopgen", "bisheng")
PROFILERS = ("msprof", "msopprof")
OF_THE_DRIVER = ("/usr/local/sbin", "/usr/local/bin")
WATCHED = (*HOMES, "PATH", "HOME", "PYTHONPATH")
"""What the answer depends on."""
NOT_REPORTED = "not reported"
CARD_S, TORCH_S = 20.0, 90.0
ASK_TORCH = "import sys, torch_npu; sys.exit(0 if torch_npu.npu.is_available() else 1)"
CHIP = re.compile(r"^\|\s*\d+\s+(?:Ascend)?(\d{3}[A-Za-z]?\d?[\w-]*)\s*\|", re.MULTILINE)
VERSION = re.compile(r"^\s*(?:runtime_running_version|toolkit_running_version|Version|version)\s*=\s*\[?([^\]\s]+)", re.MULTILINE)


class Found(NamedTuple):
    """What was found, and what the missing rest needs."""

    level: str
    """`none`, `toolchain` (compile, debug on the CPU, simulate) or `card` (run and measure)."""
    home: Path | None
    tools: dict[str, str | None]
    """By name: the path, or None."""
    versions: dict[str, str]
    why: str
    """One line that names the fix for what is missing; empty when nothing is."""


SEEN: dict[tuple[str | None, ...], Found] = {}


def found() -> Found:
    """What this process's environment leads to; asked once per environment, for asking a card takes seconds."""
    key = tuple(os.environ.get(name) for name in WATCHED)
    if key not in SEEN:
        SEEN[key] = look(os.environ)
    return SEEN[key]


def look(environment: Mapping[str, str], scripts: Sequence[str] = SCRIPTS) -> Found:
    """The same without remembering."""
    home, trouble = home_in(environment, scripts)
    tools = {name: tool(name, environment, home) for name in TOOLS}
    if home is None:
        return Found(NONE, None, tools, {}, trouble)
    versions = {"cann": version(home)}
    if lacking := [name for name in NEEDED if not tools[name]]:
        fix = f"source {home.parent / 'set_env.sh'}, or install the CANN toolkit again"
        return Found(NONE, home, tools, versions, f"CANN at {home} is incomplete, {' and '.join(lacking)} missing: {fix}")
    cards, trouble = card(environment, tools["npu-smi"])
    if not cards:
        return Found(TOOLCHAIN, home, tools, versions, trouble)
    versions["npu"] = cards
    if not any(tools[name] for name in PROFILERS):
        why = f"a card but no profiler, so nothing can be timed on it: install msprof or msopprof into {home / 'bin'}"
        return Found(TOOLCHAIN, home, tools, versions, why)
    return Found(CARD, home, tools, versions, "")


def home_in(environment: Mapping[str, str], scripts: Sequence[str]) -> tuple[Path | None, str]:
    """The toolkit's folder, or in words why there is none."""
    for name in HOMES:
        if value := environment.get(name):
            if Path(value).is_dir():
                return Path(value), ""
            return None, f"{name}={value} does not exist: source the set_env.sh of the CANN toolkit that is installed, or unset it"
    there = [script for script in map(os.path.expanduser, scripts) if Path(script).is_file()]
    if there:
        return None, f"CANN is installed but not set up in this shell: source {there[0]}"
    return None, f"no CANN toolkit: install it, then source its set_env.sh (usually {scripts[0]})"


def tool(name: str, environment: Mapping[str, str], home: Path | None) -> str | None:
    """On PATH, else where the toolkit and the driver put their programs."""
    if path := shutil.which(name, path=environment.get("PATH", os.defpath)):
        return path
    places = [home / "bin", home / f"{platform.machine()}-linux" / "ccec_compiler" / "bin"] if home else []
    if name == "npu-smi":
        places += [Path(place) for place in OF_THE_DRIVER]
    return next((path for place in places if (path := shutil.which(name, path=str(place)))), None)


def version(home: Path) -> str:
    """What the toolkit's own files say."""
    for path in version_files(home):
        try:
            text = path.read_text(errors="replace")
        except OSError:
            continue
        if match := VERSION.search(text):
            return match[1].partition(":")[2] or match[1]
    return NOT_REPORTED


def version_files(home: Path) -> Iterator[Path]:
    yield home / "version.cfg"
    yield from sorted(home.glob("*-linux/ascend_toolkit_install.info"))
    yield home / "ascend_toolkit_install.info"
    yield home / "compiler" / "version.info"


def card(environment: Mapping[str, str], npu_smi: str | None) -> tuple[str, str]:
    """The cards' names, or "" and why none can be used."""
    if npu_smi:
        code, text = ask([npu_smi, "info"], environment, CARD_S)
        if code == 0:
            names = CHIP.findall(text)
            return (f"{len(names)} x {names[0]}" if names else NOT_REPORTED), ""
        said = f"`npu-smi info` {'does not answer' if code is None else f'failed with exit code {code}'}"
    else:
        said = "npu-smi is not installed"
    if ask([sys.executable, "-c", ASK_TORCH], environment, TORCH_S)[0] == 0:
        return NOT_REPORTED, ""
    return (
        "",
        f"the toolchain but no card ({said}, and torch_npu reports none): install the driver, or map /dev/davinci* into the container",
    )


def ask(command: Sequence[str], environment: Mapping[str, str], limit_s: float) -> tuple[int | None, str]:
    """Exit code and output of a question; None for the code when there was no answer."""
    try:
        done = subprocess.run(
            command, env=dict(environment), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=limit_s
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, ""
    return done.returncode, done.stdout
