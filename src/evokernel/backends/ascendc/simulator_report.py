"""Parses the simulator's report of each launch: cycles, traffic and busy pipes.

The report comes from the process that ran the candidate, so every field is validated.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NoReturn

from evokernel.core.errors import CandidateError

PREFIX = "simulator-report "
PIPES = ("S", "V", "MTE2", "MTE3", "MTE1", "M", "FIX")
CUBE_ONLY, VECTOR_ONLY = ("M", "MTE1", "FIX"), ("V", "MTE3")
MAX_COUNT = 1e18
"""Upper bound of every counter."""
TilingKey = int
"""A tiling key may have any 64 bits, so the bound of counters does not apply."""
MAX_NOTES, QUOTED_CHARS = 64, 120
COUNTERS = ("vec_instr", "mte_instr", "mte2_bytes", "mte3_bytes", "scalar_gm", "scalar_gm_miss", "scalar_ub", "macs")
SUMMED_FIELDS = ("workspace", "cycles", "us", "end", "launches", "cube_start", "library_start", "cube_end", *COUNTERS)
"""Fields that are summed over the launches of one call."""
OPTIONAL_FIELDS = ("saved", "sites", "best_cores", "cube_busy", "cube_end", "slowest_cycles", "slowest_block", "slowest_is_cube")
REPLAYS = (
    "nothing", *PIPES, "copies", "products", "accesses", "reductions", "calls", "library", "meetings", "barriers", "buffers", "alignment",
    "traffic", "cores", "even", "tiles",
)  # fmt: skip
"""What the simulator makes free in its replays: a pipe, or something else (what_if.h)."""
MAX_SITES = 64


@dataclass(frozen=True)
class Note:
    """A violation, or near violation, after which execution continued."""

    code: str
    addresses: str
    text: str
    count: int


@dataclass(frozen=True)
class SiteSaving:
    """A call in the kernel, and the cycles that the launch would save if it cost nothing."""

    addresses: str
    """The call stack as offsets in the operator's library, innermost first."""
    work: str
    """A replay that makes this work free: a pipe, or `accesses`, `reductions`, `barriers`, `meetings`, `products`, `library`."""
    cycles: float


@dataclass(frozen=True)
class LaunchReport:
    """The report of one launch. Sums cover the executed blocks, which may be a sample of all blocks."""

    op: str
    block_dim: int
    """Set by the tiling function."""
    blocks: int
    """Number of blocks on vector and cube cores together."""
    blocks_run: int
    blocks_dry: int
    """Blocks that ran without data; other blocks that ran had data, and blocks that did not run are extrapolated by waves."""
    guesses: int
    """Numbers that the blocks read in a dry execution although no data were there."""
    is_part: bool
    """Whether the verifier chose the blocks, so that the launch is not complete."""
    matches_dry: bool
    """Whether chosen blocks did as much as in the dry execution: the same number of instructions, bytes and cycles, copies left out."""
    tiling_key: TilingKey
    workspace: int
    cycles: float
    """From start to end: the sum of the slowest block of each wave."""
    us: float
    """Including the launch overhead."""
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
    """Whether the kernel accessed GM through raw pointers, which the simulator cannot count."""
    busy: dict[str, float]
    """Busy cycles of each pipe, summed over the blocks."""
    end: float
    """Cycles of all blocks, summed."""
    notes: tuple[Note, ...]
    bytes: tuple[int, ...]
    """Sizes of the tensors in the verifier's call, in order."""
    call: int
    """Number of the verifier's call: a binding may launch several operators in one call."""
    cube_start: float
    """Cycles until a kernel with vector and cube cores runs; part of `cycles`."""
    library_start: float
    """Cycles in which Matmul starts on a core; part of `cycles`."""
    saved: dict[str, float] = field(default_factory=dict)
    """Cycles that the launch would save in each replay of its schedule with one thing made free; `nothing` is the error of the replay."""
    sites: tuple[SiteSaving, ...] = ()
    best_cores: int = 0
    """Number of cores of the replay `cores`: all of them, or fewer if more would start too late; 0 if there was no replay."""
    cube_busy: dict[str, float] = field(default_factory=dict)
    """The part of `busy` on cube cores; empty if it was not reported."""
    cube_end: float = 0.0
    """The part of `end` on cube cores; 0 if they only work for Matmul."""
    slowest_cycles: float = 0.0
    """Cycles of the slowest core; 0 if they were not reported."""
    slowest_block: int = 0
    slowest_is_cube: bool = False
    launches: int = 1

    def busy_share(self, pipe: str) -> float:
        """Share of the cores' time in which the pipe was busy, on the kind of core where it was busier.

        Without figures by kind, cube and vector blocks count as equally long.
        """
        if self.cube_busy:
            return max(self.core_busy_share(pipe, is_cube) for is_cube in (True, False))
        cubes = self.block_dim / self.blocks if self.blocks > self.block_dim else 0.0
        having = cubes if pipe in CUBE_ONLY else 1 - cubes if pipe in VECTOR_ONLY else 1.0
        there = self.end * (having or 1.0)
        return min(1.0, self.busy.get(pipe, 0.0) / there) if there > 0 else 0.0

    def mean_cycles(self, is_cube: bool) -> float:
        """Cycles of an average core of this kind. A cube core that only works for Matmul takes as long as its vector cores."""
        groups = self.blocks_run * self.block_dim / self.blocks
        if not self.cube_end or self.blocks == self.block_dim:
            return self.end / self.blocks_run
        return self.cube_end / groups if is_cube else (self.end - self.cube_end) / (self.blocks_run - groups)

    def core_busy_share(self, pipe: str, is_cube: bool) -> float:
        """Share of the time of this kind of core in which its pipe was busy."""
        if not self.cube_busy:
            return self.busy_share(pipe)
        cores = self.blocks_run * self.block_dim / self.blocks
        if not is_cube and self.blocks > self.block_dim and self.cube_end:
            cores = self.blocks_run - cores
        elif not is_cube:
            cores = self.blocks_run
        busy = self.cube_busy.get(pipe, 0.0) if is_cube else self.busy.get(pipe, 0.0) - self.cube_busy.get(pipe, 0.0)
        return min(1.0, max(0.0, busy) / (cores * self.mean_cycles(is_cube)))

    def scale_to_all_blocks(self, counted: float) -> float:
        """Extrapolate a sum over the executed blocks to all blocks."""
        return counted * self.blocks / self.blocks_run


def parse_reports(stderr: str, mark: str = "") -> list[LaunchReport]:
    """Parse the reports of all launches, in order. Raises CandidateError for a line without `mark`, which only the simulator knows."""
    lines = [line.removeprefix(PREFIX).partition(" ") for line in stderr.splitlines() if line.startswith(PREFIX)]
    if forged_lines := [text for line_mark, _, text in lines if line_mark != mark]:
        refuse_report(forged_lines[0], "the line does not have the simulator's mark")
    return [parse_report(text) for _, _, text in lines]


def slowest_call_at_size(launches: Iterable[LaunchReport], sizes: Sequence[int]) -> LaunchReport:
    """The slowest call whose tensors have these sizes, or some of them, in any order. All launches of a call count."""
    calls: dict[int, list[LaunchReport]] = {}
    for report in replace_refuted_reports([report for report in launches if Counter(report.bytes) <= Counter(sizes)]):
        calls.setdefault(report.call, []).append(report)
    if not calls:
        raise CandidateError(
            "no_latency",
            "the latency cannot be estimated, because no launch has the tensor sizes of `bench`: launch the kernel on the given tensors",
        )
    return max((merge_launches(launches) for launches in calls.values()), key=lambda report: report.us)


def replace_refuted_reports(launches: Sequence[LaunchReport]) -> list[LaunchReport]:
    """Reports of complete launches. If the blocks that ran with data took other times than in the dry execution, theirs, extrapolated."""
    refuting_calls = {report.call for report in launches if report.is_part and not report.matches_dry}
    return [report for report in launches if (report.call in refuting_calls if refuting_calls else not report.is_part)]


def merge_launches(launches: Sequence[LaunchReport]) -> LaunchReport:
    """Combine sequential launches: block counts come from the longest launch, the other figures are summed."""
    longest = max(launches, key=lambda report: report.us)
    totals = {name: sum(getattr(report, name) for report in launches) for name in SUMMED_FIELDS}
    busy, cube_busy = (
        {pipe: sum(getattr(report, name).get(pipe, 0.0) for report in launches) for pipe in PIPES} for name in ("busy", "cube_busy")
    )
    notes = tuple(note for report in launches for note in report.notes)
    raw = any(report.raw_pointers for report in launches)
    saved = {name: sum(report.saved.get(name, 0.0) for report in launches) for name in REPLAYS if name in longest.saved}
    sites = tuple(site for report in launches for site in report.sites)
    if len(launches) == 1:
        return longest
    return replace(longest, **totals, busy=busy, cube_busy=cube_busy, notes=notes, raw_pointers=raw, saved=saved, sites=sites)


def parse_report(text: str) -> LaunchReport:
    """Parse and validate one line without its prefix."""
    try:
        row = json.loads(text, parse_constant=lambda word: refuse_report(text, f"{word} is not a number"))
    except (ValueError, RecursionError):
        refuse_report(text, "it is not JSON")
    if not isinstance(row, dict):
        refuse_report(text, "it is not a JSON object")
    expected = [one for one in fields(LaunchReport) if one.name != "launches"]
    missing = [one.name for one in expected if one.name not in row and one.name not in OPTIONAL_FIELDS]
    if missing:
        refuse_report(text, f"it lacks {', '.join(missing)}")
    report = LaunchReport(
        **{
            one.name: PARSERS[one.name if one.name in PARSERS else str(one.type)](row[one.name], text)
            for one in expected
            if one.name in row
        }
    )
    if not 0 < report.blocks_run <= report.blocks:
        refuse_report(text, f"{report.blocks_run} of {report.blocks} blocks ran")
    if any(cycles > report.cycles * (1 + 1e-6) for cycles in (*report.saved.values(), *(site.cycles for site in report.sites))):
        refuse_report(text, "a replay saves more than the launch takes")
    return report


def refuse_report(text: str, why: str) -> NoReturn:
    """Raise for a line that the simulator cannot have written."""
    raise CandidateError("forbidden", f"the candidate wrote a forged simulator report ({why}): {text[:QUOTED_CHARS]}")


def parse_number(value: object, text: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        refuse_report(text, f"{value!r} is not a number")
    if not (0 <= value <= MAX_COUNT and math.isfinite(value)):
        refuse_report(text, f"{value:g} is out of range" if isinstance(value, float) else "a number is out of range")
    return float(value)


def parse_integer(value: object, text: str) -> int:
    number = parse_number(value, text)
    if not number.is_integer():
        refuse_report(text, f"{number:g} is not an integer")
    return value if isinstance(value, int) else int(number)


def parse_tiling_key(value: object, text: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 2**64:
        refuse_report(text, "the tiling key does not fit into 64 bits")
    return int(value)


def parse_string(value: object, text: str) -> str:
    if not isinstance(value, str):
        refuse_report(text, f"{value!r} is not a string")
    return value


def parse_bool(value: object, text: str) -> bool:
    if not isinstance(value, bool):
        refuse_report(text, f"{value!r} is neither true nor false")
    return value


def parse_pipe_cycles(value: object, text: str) -> dict[str, float]:
    if not isinstance(value, dict) or not set(value) <= set(PIPES):
        refuse_report(text, "busy is not an object of pipes")
    return {pipe: parse_number(cycles, text) for pipe, cycles in value.items()}


def parse_savings(value: object, text: str) -> dict[str, float]:
    if not isinstance(value, dict) or not set(value) <= set(REPLAYS):
        refuse_report(text, "saved is not an object of replays")
    return {name: parse_number(cycles, text) for name, cycles in value.items()}


def parse_sites(value: object, text: str) -> tuple[SiteSaving, ...]:
    sites = []
    for row in parse_list(value, text)[:MAX_SITES]:
        parts = parse_list(row, text)
        if len(parts) != 3 or parts[1] not in REPLAYS:
            refuse_report(text, "a site does not have an address, its work and its cycles")
        sites.append(SiteSaving(parse_string(parts[0], text), parse_string(parts[1], text), parse_number(parts[2], text)))
    return tuple(sites)


def parse_sizes(value: object, text: str) -> tuple[int, ...]:
    return tuple(parse_integer(size, text) for size in parse_list(value, text))


def parse_notes(value: object, text: str) -> tuple[Note, ...]:
    notes = []
    for row in parse_list(value, text)[:MAX_NOTES]:
        parts = parse_list(row, text)
        if len(parts) != 4:
            refuse_report(text, "a note does not have four parts")
        notes.append(
            Note(parse_string(parts[0], text), parse_string(parts[1], text), parse_string(parts[2], text), parse_integer(parts[3], text))
        )
    return tuple(notes)


def parse_list(value: object, text: str) -> list[object]:
    if not isinstance(value, list):
        refuse_report(text, f"{value!r} is not a list")
    return value


PARSERS: dict[str, Callable[[object, str], Any]] = {
    "str": parse_string,
    "int": parse_integer,
    "TilingKey": parse_tiling_key,
    "float": parse_number,
    "bool": parse_bool,
    "dict[str, float]": parse_pipe_cycles,
    "saved": parse_savings,
    "tuple[SiteSaving, ...]": parse_sites,
    "tuple[int, ...]": parse_sizes,
    "tuple[Note, ...]": parse_notes,
}
"""The parser of a field, by its name or the text of its type annotation."""
