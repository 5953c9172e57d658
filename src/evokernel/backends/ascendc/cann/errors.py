"""Maps error messages of CANN's tools and runtime to a failure reason, the responsible party and a hint for the generator."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.core.errors import CandidateError, InfraError, UserError

GENERATE, BUILD, INSTALL, COMPILE, RUN = "generate", "build", "install", "compile", "run"
DEFAULT_REASONS = {GENERATE: "compile_error", BUILD: "compile_error", COMPILE: "compile_error", RUN: "crash"}
"""Reason of a failure that matches no pattern. Installation runs no code of the candidate, so it has none."""
MAX_CHARS, MAX_LINES, MAX_WIDTH = 1200, 12, 220
ABSOLUTE_PATH = re.compile(r"(?<![\w.:/])(?:/[\w.+@\-]+)+/(?=[\w.<])")
COMPILER_ERROR = re.compile(r"^(?P<file>[^:\s][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal )?error: (?P<text>.*)$")
WORTH_QUOTING = re.compile(r"(?i)error|fail|exception|undefined|undeclared|out of range|time ?out|errcode|\b[15]\d{5}\b")
MAX_ERRORS = 3


class ErrorPattern(NamedTuple):
    """One entry of `errors.toml`."""

    regex: re.Pattern[str]
    reason: str
    blame: str
    hint: str
    steps: tuple[str, ...]


@lru_cache
def load_table() -> dict[str, Any]:
    """The contents of `errors.toml`."""
    return tomllib.loads((Path(__file__).parent / "errors.toml").read_text())


@lru_cache
def load_patterns() -> tuple[ErrorPattern, ...]:
    return tuple(
        ErrorPattern(
            re.compile(entry["match"], re.IGNORECASE | re.MULTILINE),
            entry.get("reason", ""),
            entry.get("blame", "candidate"),
            entry["hint"],
            tuple(entry.get("steps", ())),
        )
        for entry in load_table()["pattern"]
    )


@lru_cache
def noise_patterns() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.MULTILINE) for pattern in load_table()["cleaning"]["remove"])


def match_pattern(text: str, step: str) -> ErrorPattern | None:
    """The first pattern that matches the text in this step."""
    return next(
        (pattern for pattern in load_patterns() if (not pattern.steps or step in pattern.steps) and pattern.regex.search(text)), None
    )


def explain_failure(text: str, step: str, names: Mapping[str, str] | None = None) -> CandidateError | InfraError | UserError:
    """The exception for a failed step. `names` maps file names in the output to the candidate's file names."""
    pattern = match_pattern(text, step)
    words = quote_errors(text, names or {}) or "it failed without a message"
    if pattern and pattern.blame == "user":
        return UserError(f"CANN cannot {step_phrase(step)} on this machine: {pattern.hint} ({first_line(words)})")
    if (pattern and pattern.blame == "machine") or (not pattern and step not in DEFAULT_REASONS):
        return InfraError(f"CANN could not {step_phrase(step)}: {first_line(words)}" + (f": {pattern.hint}" if pattern else ""))
    reason = pattern.reason if pattern else DEFAULT_REASONS[step]
    hint = f"\nHint: {pattern.hint}" if pattern and pattern.hint else ""
    return CandidateError(reason, truncate(words, MAX_CHARS - len(hint)) + hint)


def step_phrase(step: str) -> str:
    return {GENERATE: "generate an operator project", INSTALL: "install the operator", RUN: "run the operator"}.get(
        step, "build the operator"
    )


def quote_errors(text: str, names: Mapping[str, str]) -> str:
    """The first compile errors with their lines, else lines about a failure, else the last lines; without paths and noise."""
    errors = list(dict.fromkeys(formatted for line in text.splitlines() if (formatted := format_compiler_error(line, names))))
    if errors:
        more = f"\n(and {len(errors) - MAX_ERRORS} more errors)" if len(errors) > MAX_ERRORS else ""
        return "\n".join(errors[:MAX_ERRORS]) + more
    lines = clean_output(text).splitlines()
    telling = [line for line in lines if WORTH_QUOTING.search(line)]
    return "\n".join(truncate(line, MAX_WIDTH) for line in (telling[:MAX_LINES] or lines[-MAX_LINES:]))


def format_compiler_error(line: str, names: Mapping[str, str]) -> str:
    """A compiler error with the candidate's file name; "" for other lines."""
    match = COMPILER_ERROR.match(strip_control_characters(line).strip())
    if not match:
        return ""
    place = match["file"]
    own = next(
        (name for generated_name, name in names.items() if place == generated_name or place.endswith("/" + generated_name)),
        place.rsplit("/", 1)[-1],
    )
    column = f":{match['column']}" if match["column"] else ""
    return truncate(f"{own}:{match['line']}{column}: error: {ABSOLUTE_PATH.sub('', match['text'])}", MAX_WIDTH)


def clean_output(text: str) -> str:
    """Remove paths, times, addresses, progress messages and repeated lines."""
    text = ABSOLUTE_PATH.sub("", strip_control_characters(text))
    for pattern in noise_patterns():
        text = pattern.sub("", text)
    return "\n".join(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))


def strip_control_characters(text: str) -> str:
    """Remove terminal colours and replace unprintable characters by blanks."""
    text = re.sub(r"\x1b\[[\d;]*m", "", text)
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def first_line(text: str) -> str:
    return truncate(text.partition("\n")[0], MAX_WIDTH)


def truncate(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1].rstrip() + "…"
