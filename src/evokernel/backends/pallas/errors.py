"""Messages of jax, Pallas and the TPU compiler as reasons, with what helps the writer of a kernel.

That is the message without its noise, the candidate's line, and a hint that names the fix.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.core.errors import CandidateError

LIMIT = 1200
COMPILERS = ("MosaicError", "MLIRError", "VerificationError", "JaxRuntimeError", "XlaRuntimeError", "LoweringException", "Refused")
LINE = re.compile(r"\b([\w\-]+\.py)\"?:(\d+)")
LOCATION = re.compile(r"at location: loc\([^\n]*\)")
KERNEL = re.compile(r"\s*:: (?:([\w\-]+\.py)_(\d+)|[\w.\-]+)(?:\.\d+)?\s*$")
STACK = re.compile(r" while allocating on stack for %(?:([\w\-]+\.py)_(\d+)\S*|\S+) = .*?\}(?=\. )")
OPERATION = re.compile(r"%\d+(?::\d+)? = \"(?P<name>[\w.]+)\"\([^\n]*")
TYPES = re.compile(r" : (\([^\n]*\) -> [^\n]*)$")
FRAME = re.compile(r"^ +File \"(?P<file>[^\"]+)\", line (?P<line>\d+)(?:, in (?P<name>.+))?$")
NAMED = re.compile(r"\b([\w\-]+\.py)_(\d+)(?:\.\d+)?(?=:)")
PATH = re.compile(r"(?<![\w.:/])(?:/[\w.+@\-]+)+/(?=[\w.<])")


class Pattern(NamedTuple):
    """One entry of `errors.toml`."""

    found: re.Pattern[str]
    reason: str
    hint: str


@lru_cache
def table() -> dict[str, Any]:
    """Read when first needed."""
    return tomllib.loads((Path(__file__).parent / "errors.toml").read_text())


@lru_cache
def patterns() -> tuple[Pattern, ...]:
    return tuple(Pattern(re.compile(entry["match"]), entry["reason"], entry["hint"]) for entry in table()["pattern"])


@lru_cache
def noise() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.MULTILINE) for pattern in table()["cleaning"]["remove"])


def explain(message: str, kind: str = "", otherwise: str = "") -> CandidateError:
    """A message as a reason. `kind` is the name of the exception's class; `otherwise` is the reason when no pattern is found."""
    whole = f"{kind}: {message}" if kind else message
    known = next((pattern for pattern in patterns() if pattern.found.search(whole)), None)
    reason = known.reason if known else otherwise or ("trace_error" if kind and kind not in COMPILERS else "compile_error")
    text = clean(message)
    if reason == "trace_error" and kind:
        text = f"{kind}: {text}".rstrip(": ")
    text = text or f"{kind or 'the compiler'} without a word"
    hint = f"\nHint: {known.hint}" if known and known.hint else ""
    return CandidateError(reason, clip(text, LIMIT - len(hint)) + hint)


def unpriced(notes: Sequence[str]) -> CandidateError:
    """For a kernel without a price: why, with its line where a name tells it, and what to do."""
    words = NAMED.sub(r"\1:\2", "; ".join(notes)) or "its schedule does not tell"
    text = f"how long this takes depends on data or on something the schedule does not show: {words}"
    if any("data" in note or "indices" in note for note in notes):
        text += "\nHint: let loops and `pl.when` depend on shapes and `pl.program_id` alone; do all of the work and select with `jnp.where`"
    return CandidateError("unpriced", text)


def clean(message: str) -> str:
    """The message without dumps, addresses, internal frames and paths."""
    text = "".join(c if c.isprintable() or c == "\n" else " " for c in message)
    text = "\n".join(frames_cut(text.splitlines()))
    text = LOCATION.sub(lambda match: place(match[0]), text)
    text = KERNEL.sub(lambda match: f"\nat {match[1]}:{match[2]}" if match[1] else "", text)
    text = STACK.sub(lambda match: f" at {match[1]}:{match[2]}" if match[1] else "", text)
    text = re.sub(r"\(size=(\d+)\)", lambda match: f"of {int(match[1]) / 2**20:.4g} MiB", text)
    text = re.sub(r"(?:The MLIR operation involved|see current operation):\s*(?=%)", "operation: ", text)
    text = re.sub(r"(failed to legalize operation '[\w.]+'): %[^\n]*", r"\1", text)
    text = OPERATION.sub(operation, text)
    text = re.sub(r"\b\w*Blocked\(block_size=(\d+)\)", r"\1", text)
    text = re.sub(r"(?<=\])\{[\d,]*(:T\([^{}]*\))?\}", "", text)
    text = PATH.sub("", text)
    for pattern in noise():
        text = pattern.sub("", text)
    lines = dict.fromkeys(line.rstrip() for line in text.splitlines() if line.strip())
    return "\n".join(lines).strip()


def operation(match: re.Match[str]) -> str:
    """An operation of the compiler's own language: its name and the types that go in and come out."""
    types = TYPES.search(match[0])
    plain = re.sub(r",? ?#[\w.]+<[^<>]*>", "", types[1]) if types else ""
    return clip(f"{match['name']} {plain}".strip(), 300)


def place(location: str) -> str:
    """Where the compiler says something happened, as the innermost line of Python."""
    found = LINE.findall(location)
    return f"at {found[0][0]}:{found[0][1]}" if found else ""


def frames_cut(lines: list[str]) -> list[str]:
    """Stack traces without the frames of libraries."""
    kept: list[str] = []
    inside = False
    for line in lines:
        if frame := FRAME.match(line):
            inside = True
            if "site-packages" not in frame["file"] and "/lib/python" not in frame["file"]:
                kept.append(f"at {frame['file'].rpartition('/')[2]}:{frame['line']}")
        elif not (inside and line.startswith("    ")) and not line.startswith("Traceback (most recent call last)"):
            inside = False
            kept.append(line)
    return kept


def clip(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1].rstrip() + "…"
