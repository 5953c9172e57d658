"""Line-by-line differences between two kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import NamedTuple

MAX_LINES = 3000
KINDS = {"+": "add", "-": "del", "@": "hunk"}


class DiffLine(NamedTuple):
    """One line of a diff: its kind is `add`, `del`, `hunk` or empty."""

    kind: str
    text: str


class FileDiff(NamedTuple):
    """The diff of one file; `note` replaces the lines when there are none to show."""

    name: str
    lines: Sequence[DiffLine]
    note: str = ""


def diff_files(old: Mapping[str, str], new: Mapping[str, str]) -> list[FileDiff]:
    """A diff for every file that either kernel has."""
    diffs = []
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name, "").splitlines(), new.get(name, "").splitlines()
        if before == after:
            diffs.append(FileDiff(name, (), "identical in both"))
        elif max(len(before), len(after)) > MAX_LINES:
            diffs.append(FileDiff(name, (), f"longer than {MAX_LINES} lines: not compared"))
        else:
            lines = list(unified_diff(before, after, n=3, lineterm=""))[2:]
            diffs.append(FileDiff(name, [DiffLine(KINDS.get(line[:1], ""), line) for line in lines]))
    return diffs
