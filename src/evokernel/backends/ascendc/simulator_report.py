"""What the twin says about each launch: cycles, traffic and what kept the pipes busy.

It comes from a process that ran a candidate, so it is read with suspicion.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NoReturn

from evokernel.core.errors import CandidateError

PREFIX = "twin-report "
PIPES = ("S", "V", "MTE2", "MTE3", "MTE1", "M", "FIX")
CUBE_ONLY, VECTOR_ONLY = ("M", "MTE1", "FIX"), ("V", "MTE3")
MOST = 1e18
"""No count of anything is larger."""
Key = int
"""No count: any 64 bits."""
FEW_NOTES, SHOWN = 64, 120
COUNTED = ("vec_instr", "mte_instr", "mte2_bytes", "mte3_bytes", "scalar_gm", "scalar_gm_miss", "scalar_ub", "macs")
ADDED = ("workspace", "cycles", "us", "end", "launches", *COUNTED)
"""What launches of one call add up to."""


@dataclass(frozen=True)
class Note:
    """A rule that was broken or nearly so, where execution went on."""

    code: str
    addresses: str
    text: str
    count: int


@dataclass(frozen=True)
class Report:
    """One launch. Sums are over the blocks that were run, which may be a sample of all."""

    op: str
    block_dim: int
    """As the tiling said."""
    blocks: int
    """How many that makes on vector and cube cores together."""
    ran: int
    tiling_key: Key
    workspace: int
    cycles: float
    """From start to end: the slowest block of each wave."""
    us: float
    """With the launch."""
    ub_peak: int
    vec_instr: int
    mte_instr: int
    mte2_bytes: int
    mte3_bytes: int
    scalar_gm: int
    scalar_gm_miss: int
    scalar_ub: int
    macs: int
    raw_pointers: bool
    """Whether GM was reached in ways the twin cannot see."""
    busy: dict[str, float]
    """Cycles each pipe worked, all blocks together."""
    end: float
    """Cycles all blocks together took."""
    notes: tuple[Note, ...]
    bytes: tuple[int, ...]
    """Sizes of the tensors of the judge's call, in order."""
    call: int
    """Which of the judge's calls it is part of: a bind may launch several operators."""
    launches: int = 1

    def share(self, pipe: str) -> float:
        """Of the time of the blocks that have it, while the pipe worked; cube and vector blocks are taken to run equally long."""
        cubes = self.block_dim / self.blocks if self.blocks > self.block_dim else 0.0
        having = cubes if pipe in CUBE_ONLY else 1 - cubes if pipe in VECTOR_ONLY else 1.0
        there = self.end * (having or 1.0)
        return min(1.0, self.busy.get(pipe, 0.0) / there) if there > 0 else 0.0

    def whole(self, counted: float) -> float:
        """A sum over the blocks that were run, for all of them."""
        return counted * self.blocks / self.ran


def reports(said: str, mark: str = "") -> list[Report]:
    """Those of all launches, in order; CandidateError when a line is not the twin's. `mark` is what only the twin was told."""
    lines = [line.removeprefix(PREFIX).partition(" ") for line in said.splitlines() if line.startswith(PREFIX)]
    if forged := [text for found, _, text in lines if found != mark]:
        refuse(forged[0], "it was not written by the twin")
    return [parsed(text) for _, _, text in lines]


def at_size(found: Iterable[Report], sizes: Sequence[int]) -> Report:
    """The slowest of the calls whose tensors have these sizes, in whatever order, or some of them; all launches of a call count."""
    calls: dict[int, list[Report]] = {}
    for report in found:
        if Counter(report.bytes) <= Counter(sizes):
            calls.setdefault(report.call, []).append(report)
    if not calls:
        raise CandidateError("unpriced", "no launch with the tensors of the bench size was reported, so there is nothing to price")
    return max((together(launches) for launches in calls.values()), key=lambda report: report.us)


def together(launches: Sequence[Report]) -> Report:
    """Launches one after the other as one: blocks are those of the longest, all else adds up."""
    longest = max(launches, key=lambda report: report.us)
    added = {name: sum(getattr(report, name) for report in launches) for name in ADDED}
    busy = {pipe: sum(report.busy.get(pipe, 0.0) for report in launches) for pipe in PIPES}
    notes = tuple(note for report in launches for note in report.notes)
    raw = any(report.raw_pointers for report in launches)
    return replace(longest, **added, busy=busy, notes=notes, raw_pointers=raw) if len(launches) > 1 else longest


def parsed(text: str) -> Report:
    """One line, without its prefix."""
    try:
        row = json.loads(text, parse_constant=lambda word: refuse(text, f"{word} is no number"))
    except (ValueError, RecursionError):
        refuse(text, "it is no JSON")
    if not isinstance(row, dict):
        refuse(text, "it is no table")
    written = [field for field in fields(Report) if field.name != "launches"]
    missing = [field.name for field in written if field.name not in row]
    if missing:
        refuse(text, f"it lacks {', '.join(missing)}")
    found = Report(**{field.name: READ[str(field.type)](row[field.name], text) for field in written})
    if not 0 < found.ran <= found.blocks:
        refuse(text, f"{found.ran} of {found.blocks} blocks were run")
    return found


def refuse(text: str, why: str) -> NoReturn:
    """The twin writes no such line, so the candidate did."""
    raise CandidateError("forbidden", f"a report the twin did not write: {why}: {text[:SHOWN]}")


def number(value: object, text: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        refuse(text, f"{value!r} is no number")
    if not (0 <= value <= MOST and math.isfinite(value)):
        refuse(text, f"{value:g} is out of range" if isinstance(value, float) else "a number is out of range")
    return float(value)


def whole_number(value: object, text: str) -> int:
    found = number(value, text)
    if not found.is_integer():
        refuse(text, f"{found:g} is no whole number")
    return value if isinstance(value, int) else int(found)


def any_key(value: object, text: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 2**64:
        refuse(text, "the tiling key has not 64 bits")
    return int(value)


def word(value: object, text: str) -> str:
    if not isinstance(value, str):
        refuse(text, f"{value!r} is no text")
    return value


def truth(value: object, text: str) -> bool:
    if not isinstance(value, bool):
        refuse(text, f"{value!r} is neither true nor false")
    return value


def pipes(value: object, text: str) -> dict[str, float]:
    if not isinstance(value, dict) or not set(value) <= set(PIPES):
        refuse(text, "busy is no table of pipes")
    return {pipe: number(cycles, text) for pipe, cycles in value.items()}


def sizes(value: object, text: str) -> tuple[int, ...]:
    return tuple(whole_number(size, text) for size in items(value, text))


def all_notes(value: object, text: str) -> tuple[Note, ...]:
    found = []
    for row in items(value, text)[:FEW_NOTES]:
        parts = items(row, text)
        if len(parts) != 4:
            refuse(text, "a note has not four parts")
        found.append(Note(word(parts[0], text), word(parts[1], text), word(parts[2], text), whole_number(parts[3], text)))
    return tuple(found)


def items(value: object, text: str) -> list[object]:
    if not isinstance(value, list):
        refuse(text, f"{value!r} is no list")
    return value


READ: dict[str, Callable[[object, str], Any]] = {
    "str": word,
    "int": whole_number,
    "Key": any_key,
    "float": number,
    "bool": truth,
    "dict[str, float]": pipes,
    "tuple[int, ...]": sizes,
    "tuple[Note, ...]": all_notes,
}
"""How a field is read, by its type as written above."""
