"""Reads a dumped schedule: one bundle per cycle, each a handful of operations issued together.

Only what has a meaning for time is kept. Scalar operations, transfers and waits are kept whole, because they are executed; of the
vector operations only those that occupy an MXU or XLU queue.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from evokernel.core.errors import InfraError

MAX_BYTES = 48 << 20
HEAD = re.compile(r"^[ \t]*(0x[0-9a-f]+|0)[ \t]+([A-Z]{2})?:[ \t]*((?:>[ \t]*)*)\{", re.MULTILINE)
COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)
ARGUMENT_NAME = re.compile(r"(\w+)=$")
DIVISION = re.compile(r" ?(kRem|kDivAndRem|kDiv) $")
REGION = re.compile(r"Start region (\d{1,9})|Start/End empty region (\d{1,9})")
KEPT_REGION = re.compile(r"@(\d+)")
OPERATION = re.compile(r"(?:%(\S+) = )?([A-Za-z][\w.\-]*)\s*(.*)$", re.DOTALL)
THREAD = re.compile(r"\[thread:[^\]]*\]\s*")
PREDICATE = re.compile(r"\((!?)%p\d+_p(\d+)(?:, *%\w+)?\),? *")
KEYWORD = re.compile(r"(\w+)=(?!=)(.*)$", re.DOTALL)
VECTOR = re.compile(r"(?:%(\S+) = )?(v(?!sync|delay)[\w.\-]*)\s*%?(\d*)")
QUEUED = re.compile(r"vmatmul|vmatpush|vpop|vxpose|v\w+\.xlane\.|v(?:perm|rot|bcast)\.lane|vrot\.slane\.down")


CONSTANT = re.compile(r"\(([01])\),? *")
CORE_LOAD = re.compile(r" = sld \[smem:\[#\w+\]\] $")
CORE = "core_id"


class ScheduleError(InfraError):
    """The dump is not what this version of the compiler writes."""


class Predicate(NamedTuple):
    """The operation happens when this predicate register holds, or when it does not."""

    negated: bool
    register: int


class ScalarOp(NamedTuple):
    """An operation of the scalar core, or a transfer or wait it issues."""

    result: str
    name: str
    operands: tuple[str, ...]
    """All in order, those with a name included."""
    named: dict[str, str]
    predicate: Predicate | None


class VectorOp(NamedTuple):
    """An operation that enters or leaves the queue of an MXU or XLU."""

    name: str
    result: str
    operand: str
    """Number of the value it takes, where it takes one."""


class Bundle(NamedTuple):
    """What is issued in one cycle."""

    scalar: tuple[ScalarOp, ...]
    vector: tuple[VectorOp, ...]
    depth: int
    """How many loops it is in."""


class Usage(NamedTuple):
    """How many slots of each unit every bundle takes, as the compiler counts them."""

    units: tuple[str, ...]
    capacity: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]


class Program(NamedTuple):
    """One operation of a module: a kernel, a fusion."""

    name: str
    bundles: tuple[Bundle, ...]
    regions: dict[int, int]
    """Branch targets: region number to the bundle it begins with."""
    usage: Usage | None


def read(name: str, schedule: Path, usage: Path | None) -> Program:
    """The program of a dumped schedule. ScheduleError when there is no sense in it."""
    bundles, regions = parse(text_of(schedule))
    return Program(name, bundles, regions, parse_usage(text_of(usage)) if usage else None)


def text_of(path: Path) -> str:
    """ScheduleError when it cannot be read or is larger than any sensible schedule."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ScheduleError(f"a schedule of {path.stat().st_size >> 20} MiB is too long to be priced")
        return path.read_text(errors="replace")
    except OSError as error:
        raise ScheduleError(f"the schedule cannot be read: {error}") from error


def parse(text: str) -> tuple[tuple[Bundle, ...], dict[int, int]]:
    """Bundles in order of address, and where each region begins."""
    text = COMMENT.sub(without_comment, text)
    heads = list(HEAD.finditer(text))
    bundles: list[Bundle] = []
    regions: dict[int, int] = {}
    for at, head in enumerate(heads):
        if int(head[1], 16) != at:
            raise ScheduleError(f"bundle {at} has the address {head[1]}")
        body, brace, trailer = text[head.end() : heads[at + 1].start() if at + 1 < len(heads) else len(text)].rpartition("}")
        if not brace:
            raise ScheduleError(f"bundle {at} does not end")
        for kept in KEPT_REGION.finditer(trailer):
            regions.setdefault(int(kept[1]), at)
        bundles.append(parse_bundle(body, head[3].count(">")))
    if not bundles:
        raise ScheduleError("the schedule holds no bundles")
    return tuple(bundles), regions


def without_comment(comment: re.Match[str]) -> str:
    """Comments go, except argument names, kinds of division, where the core's number is read, and regions that start after a bundle."""
    text = comment[1]
    if name := ARGUMENT_NAME.match(text):
        return f"{name[1]}="
    if division := DIVISION.match(text):
        return f", {division[1]}"
    if text.endswith("core id ") and CORE_LOAD.search(comment.string, max(0, comment.start() - 80), comment.start()):
        return f", {CORE}"
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
        if (found := VECTOR.match(slot)) and not slot.startswith(("%s", "%p")):
            if QUEUED.match(found[2]):
                vector.append(VectorOp(found[2], found[1] or "", found[3]))
        elif (op := parse_scalar(slot)) is not None:
            scalar.append(op)
    return Bundle(tuple(scalar), tuple(vector), depth)


def parse_scalar(slot: str) -> ScalarOp | None:
    """None for text that is no operation; the simulator has no use for it either."""
    found = OPERATION.match(slot)
    if not found or found[2].startswith("sphi"):  # a name for a register that already holds the value
        return None
    rest = THREAD.sub("", found[3].strip(), count=1)
    if always := CONSTANT.match(rest):
        if always[1] == "0":  # the compiler knows that it never happens, and has left it in its place
            return None
        rest = rest[always.end() :]
    predicate = None
    if test := PREDICATE.search(rest):  # mostly before the operands, after them in a load
        predicate = Predicate(test[1] == "!", int(test[2]))
        rest = (rest[: test.start()] + rest[test.end() :]).strip()
    operands, named = [], {}
    for operand in split(rest):
        keyword = KEYWORD.match(operand)
        if keyword:
            operand = named[keyword[1]] = keyword[2].strip()
        operands.append(operand)
    return ScalarOp(found[1] or "", found[2], tuple(operands), named, predicate)


def split(text: str) -> list[str]:
    """At commas outside brackets."""
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


def parse_usage(text: str) -> Usage | None:
    """None for a table of another form: shares of units are then not reported."""
    lines = text.splitlines()
    try:
        units = tuple(name.strip() for name in lines[1].split(","))
        capacity = tuple(int(value) for value in lines[2].split())
        rows = tuple(tuple(map(int, line.split())) for line in lines[4:] if line.strip())
    except (IndexError, ValueError):
        return None
    return Usage(units, capacity, rows) if len(units) == len(capacity) else None
