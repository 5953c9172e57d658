"""A compiler's output, cut down to what the writer of a kernel can act on."""

from __future__ import annotations

import re

HEADLINE = re.compile(r"^(?P<file>[^:\s][^:]*):(?P<line>\d+)(:(?P<column>\d+))?: (?P<kind>fatal error|error|warning|note): (?P<text>.*)$")
LINKER = re.compile(r"(undefined reference to .+|multiple definition of .+|relocation .+)$")
ERRORS = 3
WIDTH = 220


def first_errors(text: str, source: str) -> str:
    """The first three errors: line, message, source line and caret; include chains, notes and template noise are left out."""
    found: list[str] = []
    lines = text.splitlines()
    for index, line in enumerate(lines):
        match = HEADLINE.match(line)
        if match and "error" in match["kind"]:
            found.append(one_error(match, lines[index + 1 : index + 3], source))
        elif not match and (linked := LINKER.search(line)):
            found.append(clip(f"linker: {linked[1]}"))
        if len(found) == ERRORS:
            break
    if not found:
        found = [clip(line) for line in lines if line.strip()][:ERRORS] or ["the compiler failed without a word"]
    more = sum(1 for line in lines if (m := HEADLINE.match(line)) and "error" in m["kind"]) - len(found)
    return "\n".join(found) + (f"\n(and {more} more errors)" if more > 0 else "")


def one_error(match: re.Match[str], following: list[str], source: str) -> str:
    """Where, what, and the line itself with a caret under it."""
    file = match["file"].rsplit("/", 1)[-1]
    place = f"line {match['line']}" if file == "kernel.cpp" else file
    message = re.sub(r"\s*\[(-W|with )[^\]]*\]", "", match["text"]).replace("‘", "'").replace("’", "'")
    parts = [clip(f"{place}: {match['kind']}: {message}")]
    if file == "kernel.cpp":
        own = source.splitlines()
        number = int(match["line"])
        if 0 < number <= len(own):
            parts.append(clip(f"    {own[number - 1]}"))
            carets = [re.sub(r"^\s*\|", "", line) for line in following if re.fullmatch(r"\s*\|[\s~^|]*\^[\s~^|]*", line)]
            if carets and len(carets[0]) <= WIDTH:
                parts.append("   " + carets[0])
    return "\n".join(parts)


def clip(text: str) -> str:
    """At most a line's worth, without control characters."""
    clean = "".join(c if c.isprintable() else " " for c in text)
    return clean if len(clean) <= WIDTH else clean[: WIDTH - 1] + "…"
