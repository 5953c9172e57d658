"""Turns compiler output into short error messages that the author of a kernel can act on."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from pathlib import Path

from evokernel.backends.native.toolchain import CompilerRun
from evokernel.core.errors import CandidateError, InfraError, UserError

HEADLINE = re.compile(r"^(?P<file>[^:\s][^:]*):(?P<line>\d+)(:(?P<column>\d+))?: (?P<kind>fatal error|error|warning|note): (?P<text>.*)$")
LINKER = re.compile(r"(undefined reference to .+|multiple definition of .+|relocation .+)$")
ERRORS = 3
WIDTH = 220
LACKING = re.compile(r"cannot find -l\w+|unable to find library -l\w+|library not found for -l\w+|cannot execute .?cc1plus.?")


def raise_if_compiler_killed(compiler_run: CompilerRun) -> None:
    """Raises if something else killed the compiler. That says nothing about the candidate, so the verifier tries again."""
    if compiler_run.is_killed:
        raise CandidateError("killed", "another process killed the compiler, possibly because the machine ran out of memory")


def raise_for_failed_compile(compiler_run: CompilerRun, output: Path, sources: Mapping[str, str], timeout_s: float) -> None:
    """Raises the error for a failed compilation, typed by its cause: candidate, machine or user. Does nothing if `output` exists."""
    if compiler_run.timed_out or "CPU time limit exceeded" in compiler_run.text:
        raise CandidateError(
            "build_timeout",
            f"the compiler did not finish within {timeout_s:g} s; use less compile-time code (templates, constants, unrolling)",
        )
    if compiler_run.code == 0 and output.exists():
        return
    raise_if_compiler_killed(compiler_run)
    if (
        "out of memory" in compiler_run.text
        or "virtual memory exhausted" in compiler_run.text
        or "cannot allocate memory" in compiler_run.text.lower()
    ):
        raise CandidateError("memory", "the compiler ran out of memory; use smaller static tables and less compile-time code")
    if compiler_run.code < 0:
        signal_name = signal.Signals(-compiler_run.code).name
        raise CandidateError(
            "compile_error", f"the compiler crashed with {signal_name}; use simpler compile-time code and shallower nesting"
        )
    if "No space left on device" in compiler_run.text:
        raise InfraError("no space left on the device for building")
    if lacking := LACKING.search(compiler_run.text):
        fix = "install g++ with OpenMP (apt install g++), or set backend.compiler"
        raise UserError(f"the C++ compiler is incomplete ({lacking[0]}): {fix}")
    raise CandidateError("compile_error", summarize_errors(compiler_run.text, sources))


def summarize_errors(text: str, sources: Mapping[str, str]) -> str:
    """Formats the first three errors with line, message, source line and caret, without include chains, notes and template noise.

    `sources` maps the names that the compiler saw to the candidate's files. With several files, each location names its file.
    """
    messages: list[str] = []
    lines = text.splitlines()
    for index, line in enumerate(lines):
        match = HEADLINE.match(line)
        if match and "error" in match["kind"]:
            messages.append(format_error(match, lines[index + 1 : index + 3], sources))
        elif not match and (linker_match := LINKER.search(line)):
            messages.append(clip_line(f"linker: {linker_match[1]}"))
        if len(messages) == ERRORS:
            break
    if not messages:
        messages = [clip_line(line) for line in lines if line.strip()][:ERRORS] or ["the compiler failed without a message"]
    more = sum(1 for line in lines if (m := HEADLINE.match(line)) and "error" in m["kind"]) - len(messages)
    return "\n".join(messages) + (f"\n(and {more} more errors)" if more > 0 else "")


def format_error(match: re.Match[str], following: list[str], sources: Mapping[str, str]) -> str:
    """Formats one error: location, message, and the source line with a caret under it."""
    name = match_candidate_file(match["file"], sources)
    location = f"line {match['line']}" if name else match["file"].rsplit("/", 1)[-1]
    if name and len(sources) > 1:
        location = f"{name} {location}"
    message = re.sub(r"\s*\[(-W|with )[^\]]*\]", "", match["text"]).replace("‘", "'").replace("’", "'")
    parts = [clip_line(f"{location}: {match['kind']}: {message}")]
    if name:
        source_lines = sources[name].splitlines()
        number = int(match["line"])
        if 0 < number <= len(source_lines):
            parts.append(clip_line(f"    {source_lines[number - 1]}"))
            carets = [re.sub(r"^\s*\|", "", line) for line in following if re.fullmatch(r"\s*\|[\s~^|]*\^[\s~^|]*", line)]
            if carets and len(carets[0]) <= WIDTH:
                parts.append("   " + carets[0])
    return "\n".join(parts)


def match_candidate_file(file: str, sources: Mapping[str, str]) -> str | None:
    """Returns the candidate's file that a compiler message refers to, or None if it refers to another file."""
    if file in sources:
        return file
    fitting = [name for name in sources if file.endswith(f"/{name}")]
    return max(fitting, key=len, default=None)


def clip_line(text: str) -> str:
    """Shortens text to one line and replaces control characters by spaces."""
    clean = "".join(c if c.isprintable() else " " for c in text)
    return clean if len(clean) <= WIDTH else clean[: WIDTH - 1] + "…"
