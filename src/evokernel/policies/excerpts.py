"""Excerpts of kernels: a prompt shows the lines that matter, because complete kernels of other operators lead a model astray."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import unified_diff

MAX_EXCERPT_LINES, MAX_EXCERPT_CHARS = 60, 2_000
LINES_BEFORE, LINES_AFTER = 4, 8
"""Lines that an excerpt shows around each line that matters."""
MAX_NAMES = 50
"""Functions by which the block of a kernel is chosen if no card names any."""
MAX_COMPARED_LINES = 2000
"""A longer kernel is not compared line by line."""
API_NAME = re.compile(r"(?<![\w.])[A-Za-z_][\w.]{3,}(?=[(<])")
CALLED_NAME = re.compile(r"\b[A-Za-z_]\w{3,}(?=\s*[(<])")
CODE_SPAN = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
FAILED_LINE = re.compile(r"\.\w+:(\d+)|\bline (\d+)")


def contains_identifier(name: str, code: str) -> bool:
    """Return whether an API name occurs in code as a complete word."""
    return name in code and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", code) is not None


def list_code_names(text: str) -> list[str]:
    """Return the calls that look like APIs in the code of a Markdown text: `SetTail(m)`, `pl.when(x)`, `fori_loop(0, n)`."""
    names = (name for span in CODE_SPAN.findall(text) for name in API_NAME.findall(span))
    return list(dict.fromkeys(name for name in names if re.search(r"[A-Z_.]", name)))


def list_new_names(code: str, start_code: str) -> list[str]:
    """Return the functions and types that a kernel uses and the start point does not."""
    start_names = set(CALLED_NAME.findall(start_code))
    return [name for name in dict.fromkeys(CALLED_NAME.findall(code)) if name not in start_names]


def make_excerpt(code: str, names: Iterable[str], max_lines: int = MAX_EXCERPT_LINES, max_chars: int = MAX_EXCERPT_CHARS) -> str:
    """Return the function or block of a kernel that uses most of these names, complete; a short kernel is returned complete."""
    lines, names = code.splitlines(), list(names)
    names = names or list(dict.fromkeys(CALLED_NAME.findall(code)))[:MAX_NAMES]  # without names: the block with most calls
    if len(lines) <= max_lines and len(code) <= max_chars:
        return code
    hits = {number: found for number, line in enumerate(lines) if (found := {name for name in names if contains_identifier(name, line)})}
    blocks = {find_block(lines, number, max_lines, max_chars): None for number in hits}

    def count_names(block: range) -> int:
        """The number of different names in a block."""
        return len(set().union(*(hits.get(number, set()) for number in block)))

    best = max(blocks, key=lambda block: (count_names(block), -len(block)), default=range(0))
    return "\n".join([describe_lines(best, len(lines)), *lines[best.start : best.stop]])[:max_chars] if best else ""


def find_block(lines: Sequence[str], number: int, max_lines: int, max_chars: int) -> range:
    """Return the largest block around a line that fits: a header and the lines indented below it; the lines around it if none fits."""
    block = range(max(0, number - LINES_BEFORE), min(len(lines), number + LINES_AFTER + 1))
    if sum(len(lines[n]) + 1 for n in block) > max_chars:
        block = range(number, number + 1)
    if indent_of(lines[number]) == 0:
        return block
    header, end = number, number + 1
    while (indent := indent_of(lines[header])) > 0:
        above = range(header - 1, max(-1, number - max_lines), -1)
        parent = next((n for n in above if lines[n].strip() and indent_of(lines[n]) < indent), None)
        if parent is None:
            return block
        header, level = parent, indent_of(lines[parent])
        stop = min(len(lines), header + max_lines + 1)
        end = next((n for n in range(end, stop) if lines[n].strip() and indent_of(lines[n]) <= level), stop)
        end += end < len(lines) and lines[end].lstrip().startswith(("}", ")", "]"))
        if end - header > max_lines or sum(len(line) + 1 for line in lines[header:end]) > max_chars:
            return block
        block = range(header, end)
    return block


def indent_of(line: str) -> int:
    """Return the width of the white space before a line."""
    return len(line) - len(line.lstrip())


def describe_lines(block: range, count: int) -> str:
    """Return the note above an excerpt: the numbers of its lines, counted from 1."""
    return f"... lines {block.start + 1} to {block.stop} of {count}:"


def make_failure_excerpt(code: str, message: str, max_lines: int = MAX_EXCERPT_LINES) -> str:
    """Return the lines of a failed kernel around those that the verifier's message names; empty if it names none."""
    lines = code.splitlines()
    if len(lines) <= max_lines:
        return code
    numbers = (int(first or second) - 1 for first, second in FAILED_LINE.findall(message))
    return show_around(lines, {number: {str(number)} for number in numbers if 0 <= number < len(lines)}, max_lines)


def show_around(lines: list[str], hits: dict[int, set[str]], max_lines: int) -> str:
    """Return the lines around the hits, at most `max_lines`, with a note of their numbers; a hit with a new name comes before others."""
    chosen: set[int] = set()
    covered: set[str] = set()
    for number in sorted(hits, key=lambda number: -len(hits[number])):
        window = set(range(max(0, number - LINES_BEFORE), min(len(lines), number + LINES_AFTER + 1)))
        if hits[number] - covered and len(chosen | window) <= max_lines:
            chosen |= window
            covered |= hits[number]
    parts, previous = [], -2
    for number in sorted(chosen):
        if number != previous + 1:
            last = next(n for n in range(number, len(lines) + 1) if n not in chosen) - 1
            parts.append(describe_lines(range(number, last + 1), len(lines)))
        parts.append(lines[number])
        previous = number
    return "\n".join(parts)


def make_diff(before: str, after: str, max_lines: int = MAX_EXCERPT_LINES) -> str:
    """Return what changed from one kernel to the next, cut off after `max_lines`; empty if they are too long to compare."""
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > MAX_COMPARED_LINES:
        return ""
    lines = [line for line in unified_diff(old, new, n=1, lineterm="") if not line.startswith(("---", "+++"))]
    rest = [f"... {len(lines) - max_lines} more lines"] if len(lines) > max_lines else []
    return "\n".join([*lines[:max_lines], *rest])
