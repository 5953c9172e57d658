"""What CANN's tools and runtime say, as a reason with what helps the writer of a kernel; and whose fault it is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.core.errors import CandidateError, InfraError, UserError

GENERATE, BUILD, INSTALL, COMPILE, RUN = "generate", "build", "install", "compile", "run"
OTHERWISE = {GENERATE: "compile_error", BUILD: "compile_error", COMPILE: "compile_error", RUN: "crash"}
"""The reason of a failure that no pattern knows. Installing runs nothing of the candidate's, so it has none."""
LIMIT, LINES, WIDTH = 1200, 12, 220
PATH = re.compile(r"(?<![\w.:/])(?:/[\w.+@\-]+)+/(?=[\w.<])")
ERROR = re.compile(r"^(?P<file>[^:\s][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal )?error: (?P<text>.*)$")
WORTH_QUOTING = re.compile(r"(?i)error|fail|exception|undefined|undeclared|out of range|time ?out|errcode|\b[15]\d{5}\b")
ERRORS = 3


class Pattern(NamedTuple):
    """One entry of `errors.toml`."""

    found: re.Pattern[str]
    reason: str
    blame: str
    hint: str
    steps: tuple[str, ...]


@lru_cache
def table() -> dict[str, Any]:
    """Read when first needed."""
    return tomllib.loads((Path(__file__).parent / "errors.toml").read_text())


@lru_cache
def patterns() -> tuple[Pattern, ...]:
    return tuple(
        Pattern(
            re.compile(entry["match"], re.IGNORECASE | re.MULTILINE),
            entry.get("reason", ""),
            entry.get("blame", "candidate"),
            entry["hint"],
            tuple(entry.get("steps", ())),
        )
        for entry in table()["pattern"]
    )


@lru_cache
def noise() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.MULTILINE) for pattern in table()["cleaning"]["remove"])


def known(text: str, step: str) -> Pattern | None:
    """The pattern that decides."""
    return next((pattern for pattern in patterns() if (not pattern.steps or step in pattern.steps) and pattern.found.search(text)), None)


def explain(text: str, step: str, names: Mapping[str, str] | None = None) -> CandidateError | InfraError | UserError:
    """What a failed step means, to be raised. `names` gives the candidate's own name of a file that a tool names."""
    pattern = known(text, step)
    words = quoted(text, names or {}) or "it failed without a word"
    if pattern and pattern.blame == "user":
        return UserError(f"CANN cannot {verb(step)} here: {pattern.hint} ({first(words)})")
    if (pattern and pattern.blame == "machine") or (not pattern and step not in OTHERWISE):
        return InfraError(f"CANN could not {verb(step)}: {first(words)}" + (f": {pattern.hint}" if pattern else ""))
    reason = pattern.reason if pattern else OTHERWISE[step]
    hint = f"\nHint: {pattern.hint}" if pattern and pattern.hint else ""
    return CandidateError(reason, clip(words, LIMIT - len(hint)) + hint)


def verb(step: str) -> str:
    return {GENERATE: "make an operator project", INSTALL: "install the operator", RUN: "run the operator"}.get(step, "build the operator")


def quoted(text: str, names: Mapping[str, str]) -> str:
    """The first compile errors with their lines; else the lines that speak of a failure; else the last ones. No paths, no noise."""
    errors = list(dict.fromkeys(found for line in text.splitlines() if (found := located(line, names))))
    if errors:
        more = f"\n(and {len(errors) - ERRORS} more errors)" if len(errors) > ERRORS else ""
        return "\n".join(errors[:ERRORS]) + more
    lines = clean(text).splitlines()
    telling = [line for line in lines if WORTH_QUOTING.search(line)]
    return "\n".join(clip(line, WIDTH) for line in (telling[:LINES] or lines[-LINES:]))


def located(line: str, names: Mapping[str, str]) -> str:
    """A compiler's error, under the name that the candidate gave to the file."""
    match = ERROR.match(plain(line).strip())
    if not match:
        return ""
    place = match["file"]
    own = next((name for made, name in names.items() if place == made or place.endswith("/" + made)), place.rsplit("/", 1)[-1])
    column = f":{match['column']}" if match["column"] else ""
    return clip(f"{own}:{match['line']}{column}: error: {PATH.sub('', match['text'])}", WIDTH)


def clean(text: str) -> str:
    """Without paths, times, addresses, progress and repeated lines."""
    text = PATH.sub("", plain(text))
    for pattern in noise():
        text = pattern.sub("", text)
    return "\n".join(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))


def plain(text: str) -> str:
    """Printable, and without a terminal's colours."""
    text = re.sub(r"\x1b\[[\d;]*m", "", text)
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def first(text: str) -> str:
    return clip(text.partition("\n")[0], WIDTH)


def clip(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1].rstrip() + "…"
