"""A broken rule in words for whoever wrote the kernel: its code, the line, what happened, the rule, and what helps."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from evokernel.backends.ascendc.build import LIBRARY, SOURCES
from evokernel.core.errors import CandidateError

RULES = Path(__file__).parent / "rules.toml"
SECONDS = 20.0


@lru_cache
def rules() -> dict[str, dict[str, str]]:
    """By code: `reason`, `rule` and `hint`."""
    return tomllib.loads(RULES.read_text())


def told(workdir: Path, files: Mapping[str, str], error: CandidateError) -> CandidateError:
    """What the twin said, if it was the twin."""
    word, *rest = error.detail.split("\t")
    if word != "twin" or len(rest) != 3:
        return error
    code, addresses, text = rest
    known = rules().get(code, {})
    place = where(workdir, files, addresses)
    parts = [f"{code}{f' at {place}' if place else ''}: {text}"]
    parts += [f"Rule: {known['rule']}"] if known.get("rule") else []
    parts += [f"Hint: {known['hint']}"] if known.get("hint") else []
    return CandidateError(known.get("reason", "raised"), "\n".join(parts))


def sources(workdir: Path) -> dict[str, str]:
    """The project's files as they were compiled."""
    root = workdir / SOURCES
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def where(workdir: Path, files: Mapping[str, str], addresses: str) -> str:
    """The innermost line of the candidate's own among the calls that led there, and its text."""
    tool = shutil.which("addr2line")
    if not re.fullmatch(r"[0-9a-f]+(,[0-9a-f]+)*", addresses) or tool is None:
        return ""
    command = [tool, "-i", "-e", str(workdir / LIBRARY), *(f"0x{one}" for one in addresses.split(","))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return ""
    for line in done.stdout.splitlines():
        path, _, number = line.partition(" ")[0].rpartition(":")
        name = path.rpartition(f"/{SOURCES}/")[2] or path.removeprefix(f"{SOURCES}/")
        if name in files and number.isdigit():
            text = (files[name].splitlines() + [""] * int(number))[int(number) - 1].strip()
            return f"{name} line {number}" + (f" `{text[:120]}`" if text else "")
    return ""
