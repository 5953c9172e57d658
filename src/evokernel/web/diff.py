"""What changed between two kernels, line by line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import NamedTuple

MOST_LINES = 3000
KINDS = {"+": "add", "-": "del", "@": "hunk"}


class Piece(NamedTuple):
    """A line of a difference: `add`, `del`, `hunk` or nothing, and its text."""

    kind: str
    text: str


class Difference(NamedTuple):
    """One file."""

    name: str
    pieces: Sequence[Piece]
    note: str = ""


def compared(old: Mapping[str, str], new: Mapping[str, str]) -> list[Difference]:
    """Every file that either has; one that is the same in both says so."""
    found = []
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name, "").splitlines(), new.get(name, "").splitlines()
        if before == after:
            found.append(Difference(name, (), "the same in both"))
        elif max(len(before), len(after)) > MOST_LINES:
            found.append(Difference(name, (), f"longer than {MOST_LINES} lines: not compared here"))
        else:
            lines = list(unified_diff(before, after, n=3, lineterm=""))[2:]
            found.append(Difference(name, [Piece(KINDS.get(line[:1], ""), line) for line in lines]))
    return found
