"""Converts error messages of jax, Pallas and the TPU compiler into a reason and a detail for the next prompt.

The detail is the message without noise, the candidate's line, and a hint that names the fix.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.core.errors import CandidateError

MAX_CHARS = 1200
COMPILERS = ("MosaicError", "MLIRError", "VerificationError", "JaxRuntimeError", "XlaRuntimeError", "LoweringException", "CompileError")
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

    regex: re.Pattern[str]
    reason: str
    hint: str


@lru_cache
def load_table() -> dict[str, Any]:
    """The content of `errors.toml`."""
    return tomllib.loads((Path(__file__).parent / "errors.toml").read_text())


@lru_cache
def load_patterns() -> tuple[Pattern, ...]:
    return tuple(Pattern(re.compile(entry["match"]), entry["reason"], entry["hint"]) for entry in load_table()["pattern"])


@lru_cache
def noise_patterns() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.MULTILINE) for pattern in load_table()["cleaning"]["remove"])


def explain_message(message: str, kind: str = "", default_reason: str = "") -> CandidateError:
    """The error for a message. `kind` is the name of the exception's class; `default_reason` applies if no pattern matches."""
    full_message = f"{kind}: {message}" if kind else message
    pattern = next((pattern for pattern in load_patterns() if pattern.regex.search(full_message)), None)
    reason = pattern.reason if pattern else default_reason or ("trace_error" if kind and kind not in COMPILERS else "compile_error")
    text = clean_message(message)
    if reason == "trace_error" and kind:
        text = f"{kind}: {text}".rstrip(": ")
    text = text or f"{kind or 'the compiler'} gave no message"
    hint = f"\nHint: {pattern.hint}" if pattern and pattern.hint else ""
    return CandidateError(reason, truncate(text, MAX_CHARS - len(hint)) + hint)


def no_estimate_error(notes: Sequence[str]) -> CandidateError:
    """The error for a kernel whose latency cannot be estimated: the cause, its line if the name contains one, and the fix."""
    causes = NAMED.sub(r"\1:\2", "; ".join(notes)) or "the schedule does not show the cause"
    text = f"the latency cannot be estimated because it depends on data or on something the schedule does not show: {causes}"
    if any("data" in note or "indices" in note for note in notes):
        hint = "let loops and `pl.when` depend only on shapes and `pl.program_id`; compute all cases and select with `jnp.where`"
        text += f"\nHint: {hint}"
    return CandidateError("no_latency", text)


def clean_message(message: str) -> str:
    """The message without dumps, addresses, internal stack frames and paths."""
    text = "".join(c if c.isprintable() or c == "\n" else " " for c in message)
    text = "\n".join(strip_library_frames(text.splitlines()))
    text = LOCATION.sub(lambda match: innermost_line(match[0]), text)
    text = KERNEL.sub(lambda match: f"\nat {match[1]}:{match[2]}" if match[1] else "", text)
    text = STACK.sub(lambda match: f" at {match[1]}:{match[2]}" if match[1] else "", text)
    text = re.sub(r"\(size=(\d+)\)", lambda match: f"of {int(match[1]) / 2**20:.4g} MiB", text)
    text = re.sub(r"(?:The MLIR operation involved|see current operation):\s*(?=%)", "operation: ", text)
    text = re.sub(r"(failed to legalize operation '[\w.]+'): %[^\n]*", r"\1", text)
    text = OPERATION.sub(shorten_operation, text)
    text = re.sub(r"\b\w*Blocked\(block_size=(\d+)\)", r"\1", text)
    text = re.sub(r"(?<=\])\{[\d,]*(:T\([^{}]*\))?\}", "", text)
    text = PATH.sub("", text)
    for pattern in noise_patterns():
        text = pattern.sub("", text)
    lines = dict.fromkeys(line.rstrip() for line in text.splitlines() if line.strip())
    return "\n".join(lines).strip()


def shorten_operation(match: re.Match[str]) -> str:
    """An MLIR operation in short form: its name, operand types and result types."""
    types = TYPES.search(match[0])
    plain = re.sub(r",? ?#[\w.]+<[^<>]*>", "", types[1]) if types else ""
    return truncate(f"{match['name']} {plain}".strip(), 300)


def innermost_line(location: str) -> str:
    """The innermost Python line of a location that the compiler reports."""
    lines = LINE.findall(location)
    return f"at {lines[0][0]}:{lines[0][1]}" if lines else ""


def strip_library_frames(lines: list[str]) -> list[str]:
    """A message with its stack trace reduced to the candidate's frames."""
    result: list[str] = []
    inside = False
    for line in lines:
        if frame := FRAME.match(line):
            inside = True
            if "site-packages" not in frame["file"] and "/lib/python" not in frame["file"]:
                result.append(f"at {frame['file'].rpartition('/')[2]}:{frame['line']}")
        elif not (inside and line.startswith("    ")) and not line.startswith("Traceback (most recent call last)"):
            inside = False
            result.append(line)
    return result


def truncate(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1].rstrip() + "…"
