"""A compiler's output, cut down to what the writer of a kernel can act on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from evokernel.backends.native.toolchain import Compiled
from evokernel.core.errors import CandidateError, InfraError, UserError

HEADLINE = re.compile(r"^(?P<file>[^:\s][^:]*):(?P<line>\d+)(:(?P<column>\d+))?: (?P<kind>fatal error|error|warning|note): (?P<text>.*)$")
LINKER = re.compile(r"(undefined reference to .+|multiple definition of .+|relocation .+)$")
ERRORS = 3
WIDTH = 220
LACKING = re.compile(r"cannot find -l\w+|unable to find library -l\w+|library not found for -l\w+|cannot execute .?cc1plus.?")


def refuse_killed(done: Compiled) -> None:
    """A compiler that was killed says nothing about the candidate; the judge tries again."""
    if done.is_killed:
        raise CandidateError("killed", "the compiler was killed from outside, perhaps for lack of memory")


def refuse_failed(done: Compiled, built: Path, sources: Mapping[str, str], timeout_s: float) -> None:
    """Whose fault it is that a compiler did not leave what it was to build; nothing when it did."""
    if done.timed_out or "CPU time limit exceeded" in done.text:
        raise CandidateError("build_timeout", f"the compiler did not finish within {timeout_s:g} s: fewer templates, less unrolling")
    if done.code == 0 and built.exists():
        return
    refuse_killed(done)
    if "out of memory" in done.text or "virtual memory exhausted" in done.text or "cannot allocate memory" in done.text.lower():
        raise CandidateError("memory", "the compiler ran out of memory: smaller static tables, fewer templates")
    if "No space left on device" in done.text:
        raise InfraError("no space left on the device for building")
    if lacking := LACKING.search(done.text):
        fix = "install g++ with OpenMP (apt install g++), or set backend.compiler"
        raise UserError(f"the C++ compiler is incomplete ({lacking[0]}): {fix}")
    raise CandidateError("compile_error", first_errors(done.text, sources))


def first_errors(text: str, sources: Mapping[str, str]) -> str:
    """The first three errors: line, message, source line and caret; include chains, notes and template noise are left out.

    `sources` are the candidate's own files, by the names under which the compiler saw them; where there are several, places name theirs.
    """
    found: list[str] = []
    lines = text.splitlines()
    for index, line in enumerate(lines):
        match = HEADLINE.match(line)
        if match and "error" in match["kind"]:
            found.append(one_error(match, lines[index + 1 : index + 3], sources))
        elif not match and (linked := LINKER.search(line)):
            found.append(clip(f"linker: {linked[1]}"))
        if len(found) == ERRORS:
            break
    if not found:
        found = [clip(line) for line in lines if line.strip()][:ERRORS] or ["the compiler failed without a word"]
    more = sum(1 for line in lines if (m := HEADLINE.match(line)) and "error" in m["kind"]) - len(found)
    return "\n".join(found) + (f"\n(and {more} more errors)" if more > 0 else "")


def one_error(match: re.Match[str], following: list[str], sources: Mapping[str, str]) -> str:
    """Where, what, and the line itself with a caret under it."""
    name = own_name(match["file"], sources)
    place = f"line {match['line']}" if name else match["file"].rsplit("/", 1)[-1]
    if name and len(sources) > 1:
        place = f"{name} {place}"
    message = re.sub(r"\s*\[(-W|with )[^\]]*\]", "", match["text"]).replace("‘", "'").replace("’", "'")
    parts = [clip(f"{place}: {match['kind']}: {message}")]
    if name:
        own = sources[name].splitlines()
        number = int(match["line"])
        if 0 < number <= len(own):
            parts.append(clip(f"    {own[number - 1]}"))
            carets = [re.sub(r"^\s*\|", "", line) for line in following if re.fullmatch(r"\s*\|[\s~^|]*\^[\s~^|]*", line)]
            if carets and len(carets[0]) <= WIDTH:
                parts.append("   " + carets[0])
    return "\n".join(parts)


def own_name(file: str, sources: Mapping[str, str]) -> str | None:
    """Which of the candidate's files the compiler means; None when it is somebody else's."""
    if file in sources:
        return file
    fitting = [name for name in sources if file.endswith(f"/{name}")]
    return max(fitting, key=len, default=None)


def clip(text: str) -> str:
    """At most a line's worth, without control characters."""
    clean = "".join(c if c.isprintable() else " " for c in text)
    return clean if len(clean) <= WIDTH else clean[: WIDTH - 1] + "…"
