"""Turns a rule violation from the simulator into a message for the generator: code, source line, event, rule and fix."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
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
    place = locate_lines(workdir, files, [addresses])[0]
    if place is None:
        return ""
    name, number = place
    text = (files[name].splitlines() + [""] * number)[number - 1].strip()
    return f"{name} line {number}" + (f" `{text[:120]}`" if text else "")


def locate_sites(workdir: Path, stacks: Sequence[str], first_lines: Mapping[str, int]) -> dict[str, int]:
    """The lines of the candidate's file by call stack; `first_lines` are the lines before each of its parts."""
    places = zip(stacks, locate_lines(workdir, read_sources(workdir), stacks))
    return {stack: place[1] + first_lines.get(place[0], 0) for stack, place in places if place}


def locate_lines(workdir: Path, files: Mapping[str, str], stacks: Sequence[str]) -> list[tuple[str, int] | None]:
    """For each call stack, the file and number of the innermost line of the candidate; None if there is none."""
    tool = shutil.which("addr2line")
    frames = [one.split(",") if re.fullmatch(r"[0-9a-f]+(,[0-9a-f]+)*", one) else [] for one in stacks]
    unique_addresses = list(dict.fromkeys(address for stack in frames for address in stack))
    if tool is None or not unique_addresses:
        return [None] * len(stacks)
    command = [tool, "-a", "-i", "-e", str(workdir / OPERATOR_LIBRARY), *(f"0x{one}" for one in unique_addresses)]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=ADDR2LINE_TIMEOUT_S, errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return [None] * len(stacks)
    places: dict[int, tuple[str, int]] = {}
    address = -1
    for line in process.stdout.splitlines():
        if re.fullmatch(r"0x[0-9a-f]+", line):
            address = int(line, 16)
        elif (place := parse_place(line, files)) and address not in places:
            places[address] = place
    return [next((places[int(one, 16)] for one in stack if int(one, 16) in places), None) for stack in frames]


def parse_place(line: str, files: Mapping[str, str]) -> tuple[str, int] | None:
    """The candidate's file and line number in a line of addr2line's output."""
    path, _, number = line.partition(" ")[0].rpartition(":")
    name = path.rpartition(f"/{SOURCE_FOLDER}/")[2] or path.removeprefix(f"{SOURCE_FOLDER}/")
    return (name, int(number)) if name in files and number.isdigit() else None
