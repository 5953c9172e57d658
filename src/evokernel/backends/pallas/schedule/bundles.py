"""Parses a dumped schedule: one bundle per cycle, each with a few operations that issue together.

The parser keeps only operations that affect time. Scalar operations, transfers and waits are complete, because they are executed; of the
vector operations it keeps those that occupy an MXU or XLU queue.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from evokernel.core.errors import InfraError

MAX_BYTES = 80 << 20
HEAD = re.compile(r"^[ \t]*(0x[0-9a-f]+|0)[ \t]+([A-Z]{2})?:[ \t]*((?:>[ \t]*)*)\{", re.MULTILINE)
COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)
ARGUMENT_NAME = re.compile(r"(\w+)=$")
DIVISION = re.compile(r" ?(kRem|kDivAndRem|kDiv) $")
REGION = re.compile(r"Start region (\d{1,9})|Start/End empty region (\d{1,9})")
REGION_MARK = re.compile(r"@(\d+)")
OPERATION = re.compile(r"(?:%(\S+) = )?([A-Za-z][\w.\-]*)\s*(.*)$", re.DOTALL)
THREAD = re.compile(r"\[thread:[^\]]*\]\s*")
PREDICATE = re.compile(r"\((!?)%p\d+_p(\d+)(?:, *%\w+)?\),? *")
KEYWORD = re.compile(r"(\w+)=(?!=)(.*)$", re.DOTALL)
VECTOR = re.compile(r"(?:%(\S+) = )?(v(?!sync|delay)[\w.\-]*)\s*%?(\d*)")
QUEUED = re.compile(r"vmatmul|vmatpush|vpop|vxpose|v\w+\.xlane\.|v(?:perm|rot|bcast)\.lane|vrot\.slane\.down")


CONSTANT = re.compile(r"\(([01])\),? *")
CORE_LOAD = re.compile(r" = sld \[smem:\[#\w+\]\] $")
CORE_ID = "core_id"


class ScheduleError(InfraError):
    """The dump does not have the format that this version of the compiler writes."""


class Predicate(NamedTuple):
    """The operation executes if this predicate register is true, or if it is false when `is_negated`."""

    is_negated: bool
    register: int


class ScalarOp(NamedTuple):
    """An operation of the scalar core, or a transfer or wait that it issues."""

    result: str
    name: str
    operands: tuple[str, ...]
    """All operands in order, including those with a keyword."""
    keywords: dict[str, str]
    predicate: Predicate | None


class VectorOp(NamedTuple):
    """An operation that enters or leaves the queue of an MXU or XLU."""

    name: str
    result: str
    operand: str
    """Number of its operand value; empty if it has none."""


class Bundle(NamedTuple):
    """The operations that issue in one cycle."""

    scalar_ops: tuple[ScalarOp, ...]
    vector_ops: tuple[VectorOp, ...]
    loop_depth: int
    """Number of loops around the bundle."""


class SlotUsage(NamedTuple):
    """The compiler's count of the slots that every bundle uses of each unit."""

    units: tuple[str, ...]
    capacity: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]


class Program(NamedTuple):
    """The schedule of one operation of a module: a kernel or a fusion."""

    name: str
    bundles: tuple[Bundle, ...]
    regions: dict[int, int]
    """Branch targets: region number to the first bundle of the region."""
    usage: SlotUsage | None


def read_program(name: str, schedule: Path, usage: Path | None) -> Program:
    """Reads a dumped schedule. Raises ScheduleError if it cannot be parsed."""
    bundles, regions = parse_schedule(read_dump(schedule))
    return Program(name, bundles, regions, parse_usage(read_dump(usage)) if usage else None)


def read_dump(path: Path) -> str:
    """The text of a dump. Raises ScheduleError if it cannot be read or is too large."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ScheduleError(f"a schedule of {path.stat().st_size >> 20} MiB exceeds the limit of {MAX_BYTES >> 20} MiB for an estimate")
        return path.read_text(errors="replace")
    except OSError as error:
        raise ScheduleError(f"the schedule cannot be read: {error}") from error


def parse_schedule(text: str) -> tuple[tuple[Bundle, ...], dict[int, int]]:
    """The bundles in order of address, and the first bundle of each region."""
    text = COMMENT.sub(replace_comment, text)
    heads = list(HEAD.finditer(text))
    bundles: list[Bundle] = []
    regions: dict[int, int] = {}
    for at, head in enumerate(heads):
        if int(head[1], 16) != at:
            raise ScheduleError(f"instruction bundle {at} of the compiler's schedule has address {head[1]}, expected {at:#x}")
        body, brace, trailer = text[head.end() : heads[at + 1].start() if at + 1 < len(heads) else len(text)].rpartition("}")
        if not brace:
            raise ScheduleError(f"bundle {at} has no closing brace")
        for region in REGION_MARK.finditer(trailer):
            regions.setdefault(int(region[1]), at)
        bundles.append(parse_bundle(body, head[3].count(">")))
    if not bundles:
        raise ScheduleError("the schedule contains no bundles")
    return tuple(bundles), regions


def replace_comment(comment: re.Match[str]) -> str:
    """The replacement of a comment: empty, except for argument names, kinds of division, loads of the core id, and region starts."""
    text = comment[1]
    if name := ARGUMENT_NAME.match(text):
        return f"{name[1]}="
    if division := DIVISION.match(text):
        return f", {division[1]}"
    if text.endswith("core id ") and CORE_LOAD.search(comment.string, max(0, comment.start() - 80), comment.start()):
        return f", {CORE_ID}"
    if comment.string[max(0, comment.start() - 2) : comment.start()] == "} ":
        return "".join(f"@{region[1] or region[2]}" for region in REGION.finditer(text))
    return ""


def parse_bundle(body: str, depth: int) -> Bundle:
    """The operations between the braces of one bundle."""
    scalar, vector = [], []
    for slot in body.split(" ;; "):
        slot = slot.strip()
        if not slot:
            continue
        if (match := VECTOR.match(slot)) and not slot.startswith(("%s", "%p")):
            if QUEUED.match(match[2]):
                vector.append(VectorOp(match[2], match[1] or "", match[3]))
        elif (op := parse_scalar(slot)) is not None:
            scalar.append(op)
    return Bundle(tuple(scalar), tuple(vector), depth)


def parse_scalar(slot: str) -> ScalarOp | None:
    """The operation in a slot; None for text that is not an operation, and for operations that never execute."""
    match = OPERATION.match(slot)
    if not match or match[2].startswith("sphi"):  # a new name for a register that already contains the value
        return None
    rest = THREAD.sub("", match[3].strip(), count=1)
    if always := CONSTANT.match(rest):
        if always[1] == "0":  # the compiler proved that it never executes, and left it in the schedule
            return None
        rest = rest[always.end() :]
    predicate = None
    if test := PREDICATE.search(rest):  # usually before the operands, but after them in a load
        predicate = Predicate(test[1] == "!", int(test[2]))
        rest = (rest[: test.start()] + rest[test.end() :]).strip()
    operands, keywords = [], {}
    for operand in split_operands(rest):
        keyword = KEYWORD.match(operand)
        if keyword:
            operand = keywords[keyword[1]] = keyword[2].strip()
        operands.append(operand)
    return ScalarOp(match[1] or "", match[2], tuple(operands), keywords, predicate)


def split_operands(text: str) -> list[str]:
    """Splits a text at commas outside brackets."""
    if "[" not in text and "(" not in text:
        return [part.strip() for part in text.split(",") if part.strip()]
    parts, depth, begin = [], 0, 0
    for at, sign in enumerate(text):
        if sign in "[(":
            depth += 1
        elif sign in "])":
            depth -= 1
        elif sign == "," and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    parts.append(text[begin:].strip())
    return [part for part in parts if part]


def parse_usage(text: str) -> SlotUsage | None:
    """The slot usage table; None if its format is unknown, in which case the estimate has no unit shares."""
    lines = text.splitlines()
    try:
        units = tuple(name.strip() for name in lines[1].split(","))
        capacity = tuple(int(value) for value in lines[2].split())
        rows = tuple(tuple(map(int, line.split())) for line in lines[4:] if line.strip())
    except (IndexError, ValueError):
        return None
    return SlotUsage(units, capacity, rows) if len(units) == len(capacity) else None
