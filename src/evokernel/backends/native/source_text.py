"""The source text of a candidate that consists of one file: reads it, finds and quotes its lines, and screens it by the patterns of a file.

`screen.py` screens C++, which has a preprocessor. The patterns here suffice for languages in which every word means itself.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from evokernel.backends.native.diagnostics import clip_line
from evokernel.backends.native.toolchain import run_compiler
from evokernel.core.errors import CandidateError
from evokernel.core.records import Candidate

MAX_SOURCE_BYTES, MAX_LITERALS = 256 << 10, 4096
RESOLVERS, RESOLVE_S = ("addr2line", "llvm-addr2line", "llvm-symbolizer"), 20.0
NOT_ASCII = re.compile(r"[^\x20-\x7e\n\t\r]|\r(?!\n)")


def require_single_source(candidate: Candidate, file_name: str) -> str:
    """Return the text of the only file. Raises CandidateError if it has another name, is empty, or is not the only one."""
    if set(candidate.files) != {file_name}:
        there = ", ".join(sorted(candidate.files)) or "none"
        raise CandidateError("no_code", f"write exactly one file called {file_name} (found: {there})")
    if not candidate.files[file_name].strip():
        raise CandidateError("no_code", f"{file_name} is empty")
    return candidate.files[file_name]


def resolve_source_line(offsets: Iterable[str], library: str, file_name: str, workdir: Path) -> int:
    """Return the source line of the first code offset that has one; 0 if none has one or no resolver is installed."""
    program = next((path for name in RESOLVERS if (path := shutil.which(name))), None)
    if program is None:
        return 0
    for offset in offsets:
        resolver_run = run_compiler(program, ["-i", "-e", library, f"0x{offset}"], workdir, RESOLVE_S)
        if lines := re.findall(rf"{re.escape(file_name)}:([1-9]\d*)", resolver_run.text):
            return int(lines[0])
    return 0


def quote_source_line(number: int, text: str) -> str:
    """Quote a source line with its number, on a line of its own; an empty text if there is no such line."""
    lines = text.splitlines()
    return "\n" + clip_line(f"line {number}: {lines[number - 1].strip()}") if 0 < number <= len(lines) else ""


@lru_cache
def read_pattern_rules(file: Path) -> dict[str, Any]:
    """Read the rules of a language: `text` with patterns of literals, `allowed` and `refused` by message, and the backend's own tables."""
    return tomllib.loads(file.read_text())


def find_pattern_violations(name: str, text: str, rules_file: Path) -> Iterator[str]:
    """Yield each construct that the rules refuse, with its line. Comments and the contents of strings are not searched.

    `text.literal` matches comments and strings, `text.kept` those literals that the patterns see. `allowed` maps a message to a pattern
    with one group and to the words that it may match; `refused` maps a message to a pattern that may not match at all, and
    `refused_everywhere` does so for comments and strings as well.
    """
    rules = read_pattern_rules(rules_file)
    kept = re.compile(rules["text"]["kept"])
    code = re.sub(rules["text"]["literal"], lambda one: one[0] if kept.fullmatch(one[0]) else re.sub(r"[^\n\"']", " ", one[0]), text)
    if len(text.encode()) > MAX_SOURCE_BYTES or len(re.findall(r"\b\d", code)) > MAX_LITERALS:
        limits = f"{MAX_SOURCE_BYTES >> 10} KiB and {MAX_LITERALS} number literals"
        yield f"{name} exceeds the limits of {limits}; compute values instead of storing tables"
    violations = [(one, "is not ASCII or is a control character") for one in NOT_ASCII.finditer(code)]
    for message, rule in rules["allowed"].items():
        words = set(rule["words"].split())
        violations += [(one, message) for one in re.finditer(rule["pattern"], code) if one[1] not in words]
    for searched, patterns in ((code, rules["refused"]), (text, rules["refused_everywhere"])):
        violations += [(one, message) for message, pattern in patterns.items() for one in re.finditer(pattern, searched)]
    for match, message in sorted(violations, key=lambda violation: violation[0].start()):
        yield f"{name} line {code.count(chr(10), 0, match.start()) + 1}: {clip_line(match[0])!r} {message}"
