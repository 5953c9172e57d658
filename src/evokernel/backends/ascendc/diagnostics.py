"""Turns a rule violation from the simulator into a message for the generator: code, source line, event, rule and fix."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from evokernel.backends.ascendc.build import OPERATOR_LIBRARY, SOURCE_FOLDER
from evokernel.core.errors import CandidateError

RULES_FILE = Path(__file__).parent / "rules.toml"
ADDR2LINE_TIMEOUT_S = 20.0


@lru_cache
def load_rules() -> dict[str, dict[str, str]]:
    """The rules of `rules.toml` by code, each with `reason`, `rule` and `hint`."""
    return tomllib.loads(RULES_FILE.read_text())


def explain_simulator_error(workdir: Path, files: Mapping[str, str], error: CandidateError) -> CandidateError:
    """Explain an error of the simulator; other errors are returned unchanged."""
    word, *rest = error.detail.split("\t")
    if word != "simulator" or len(rest) != 3:
        return error
    code, addresses, text = rest
    rule = load_rules().get(code, {})
    place = locate_line(workdir, files, addresses)
    parts = [f"{code}{f' at {place}' if place else ''}: {text}"]
    parts += [f"Rule: {rule['rule']}"] if rule.get("rule") else []
    parts += [f"Hint: {rule['hint']}"] if rule.get("hint") else []
    return CandidateError(rule.get("reason", "raised"), "\n".join(parts))


def read_sources(workdir: Path) -> dict[str, str]:
    """The project's source files in a build folder."""
    root = workdir / SOURCE_FOLDER
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def locate_line(workdir: Path, files: Mapping[str, str], addresses: str) -> str:
    """The innermost line of the candidate in the call stack, with its text."""
    tool = shutil.which("addr2line")
    if not re.fullmatch(r"[0-9a-f]+(,[0-9a-f]+)*", addresses) or tool is None:
        return ""
    command = [tool, "-i", "-e", str(workdir / OPERATOR_LIBRARY), *(f"0x{one}" for one in addresses.split(","))]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=ADDR2LINE_TIMEOUT_S, errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return ""
    for line in process.stdout.splitlines():
        path, _, number = line.partition(" ")[0].rpartition(":")
        name = path.rpartition(f"/{SOURCE_FOLDER}/")[2] or path.removeprefix(f"{SOURCE_FOLDER}/")
        if name in files and number.isdigit():
            text = (files[name].splitlines() + [""] * int(number))[int(number) - 1].strip()
            return f"{name} line {number}" + (f" `{text[:120]}`" if text else "")
    return ""
