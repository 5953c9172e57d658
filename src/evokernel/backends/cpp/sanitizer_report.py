"""A sanitizer's report, cut down to what the writer of a kernel can act on: what was done, to which memory, on which line."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import NamedTuple

from evokernel.backends.cpp.build import LIBRARY, SOURCE
from evokernel.backends.native.diagnostics import clip
from evokernel.backends.native.toolchain import compile
from evokernel.core.errors import CandidateError
from evokernel.core.records import Candidate

RESOLVERS = ("addr2line", "llvm-addr2line", "llvm-symbolizer")
RESOLVE_S = 20.0
TENSOR = re.compile(r"^tensor (\w+) 0x([0-9a-f]+) (\d+)$", re.MULTILINE)
UNDEFINED = re.compile(rf"^(?:\S*/)?{re.escape(SOURCE)}:(\d+):\d+: runtime error: (.+)$", re.MULTILINE)
UNDEFINED_ELSEWHERE = re.compile(r"^\S+:\d+:\d+: runtime error: (.+)$", re.MULTILINE)
HEADLINE = re.compile(r"AddressSanitizer: (?:attempting )?([\w-]+(?: \S+){0,4})(?:.* (?:address|on) 0x([0-9a-f]+))?")
ACCESS = re.compile(r"^(READ|WRITE) of size (\d+) at 0x([0-9a-f]+)", re.MULTILINE)
FRAME = re.compile(rf"^ +#\d+ 0x[0-9a-f]+ .*{re.escape(LIBRARY)}\+0x([0-9a-f]+)", re.MULTILINE)
LOCAL = re.compile(r"'(\w+)'(?: \(line \d+\))? <== Memory access at offset \d+ (\S+|is inside|partially \S+) this variable")
GLOBAL = re.compile(r"(right of|left of|after|before|inside of) global variable '([^']+)'")
HEAP = re.compile(r"(\d+) bytes (?:to the )?(right of|left of|after|before|inside of) \d+-byte region \[0x([0-9a-f]+),")
BEFORE = ("left of", "before")
USED_AFTER = {
    "heap-use-after-free": "memory that was freed",
    "stack-use-after-return": "a local variable of a function that has returned",
    "stack-use-after-scope": "a local variable outside its scope",
}
MEMORY = ("allocation-size-too-big", "out-of-memory", "requested allocation", "calloc-overflow", "stack-overflow")
LIMIT = "common_flags()->mmap_limit_mb"
TOO_MUCH = "asks for more memory than it may use"
OTHERS = {
    "double-free": ("use_after_free", "frees the same memory twice"),
    "free on address": ("undefined", "frees memory that was not allocated"),
    "memcpy-param-overlap": ("undefined", "copies between places that overlap: use memmove"),
    "negative-size-param": ("out_of_bounds", "passes a negative size to a function that copies or fills memory"),
    "FPE": ("undefined", "divides an integer by zero"),
    "SEGV": ("out_of_bounds", "reads or writes memory that is not its own"),
    "BUS": ("out_of_bounds", "reads or writes memory that is not its own"),
}


class Access(NamedTuple):
    """A forbidden access."""

    verb: str
    size: int
    address: int


def explained(report: str, candidate: Candidate, workdir: Path) -> CandidateError | None:
    """The first finding of a report; None when it holds none."""
    own, any_place = UNDEFINED.search(report), UNDEFINED_ELSEWHERE.search(report)
    if any_place:
        text = re.sub(r"index -?\d+ ", "an index ", own[2] if own else any_place[1])  # it could tell a size that is not shown
        reason = "out_of_bounds" if "out of bounds" in text else "undefined"
        return CandidateError(reason, clip(text) + (quoted(int(own[1]), candidate) if own else ""))
    headline = report.find("AddressSanitizer: ")
    if headline < 0:
        return CandidateError("memory", f"the kernel {TOO_MUCH}") if LIMIT in report else None
    body = report[headline:]
    reason, words = finding(body, [(name, int(at, 16), int(size)) for name, at, size in TENSOR.findall(report)])
    first, _, history = re.split(r"(\n\n|\nfreed by)", body + "\n\n", maxsplit=1)
    text = f"the kernel {words}{quoted(line_of(first, workdir), candidate)}"
    if "heap-use-after-free" in body and (freed := line_of(history.partition("\n\n")[0], workdir)):
        text += f"\nfreed here:{quoted(freed, candidate)}"
    return CandidateError(reason, text)


def finding(body: str, tensors: list[tuple[str, int, int]]) -> tuple[str, str]:
    """Reason and words for what the sanitizer calls by a name of its own."""
    headline = body.partition("\n")[0]
    found = ACCESS.search(body)
    access = Access("reads" if found[1] == "READ" else "writes", int(found[2]), int(found[3], 16)) if found else None
    for name, what in USED_AFTER.items():
        if name in headline:
            return "use_after_free", f"{access.verb if access else 'uses'} {what}"
    if any(name in body for name in MEMORY):
        return "memory", TOO_MUCH
    if access:
        return "out_of_bounds", f"{access.verb} {place(body, access, tensors)} (an access of {access.size} bytes)"
    for name, (reason, words) in OTHERS.items():
        if name in headline:
            return reason, words
    return "undefined", f"was stopped by the sanitizer: {clip(headline.removeprefix('AddressSanitizer: ').partition(' 0x')[0])}"


def place(body: str, access: Access, tensors: list[tuple[str, int, int]]) -> str:
    """Where a forbidden access lies, from the nearest thing that has a name."""
    if local := LOCAL.search(body):
        return f"{'before the start' if 'under' in local[2] else 'past the end'} of the local array `{local[1]}`"
    if variable := GLOBAL.search(body):
        return f"{'before the start' if variable[1] in BEFORE else 'past the end'} of the static array `{variable[2]}`"
    block = HEAP.search(body)
    if block and int(block[3], 16) not in [start for _, start, _ in tensors]:
        side = "before the start" if block[2] in BEFORE else "past the end"
        return f"{far(int(block[1]))}{side} of memory it allocated"
    return beside(access, tensors)


def beside(access: Access, tensors: list[tuple[str, int, int]]) -> str:
    """Where an access lies, seen from the nearest tensor."""
    if not tensors:
        return "outside its tensors"
    name, start, size = min(tensors, key=lambda tensor: max(tensor[1] - access.address, access.address - tensor[1] - tensor[2]))
    if access.address >= start:
        return f"{far(access.address - start - size)}past the end of `{name}`"
    return f"{far(start - access.address)}before the start of `{name}`"


def far(distance: int) -> str:
    """A distance, where there is one."""
    return f"{distance} bytes " if distance > 0 else ""


def line_of(frames: str, workdir: Path) -> int:
    """The line of the kernel that a stack leads to; 0 when nobody can tell."""
    program = next((path for name in RESOLVERS if (path := shutil.which(name))), None)
    if program is None:
        return 0
    for offset in FRAME.findall(frames)[:4]:
        done = compile(program, ["-i", "-e", LIBRARY, f"0x{offset}"], workdir, RESOLVE_S)
        if lines := re.findall(rf"{re.escape(SOURCE)}:([1-9]\d*)", done.text):
            return int(lines[0])
    return 0


def quoted(number: int, candidate: Candidate) -> str:
    """A line of the kernel with its number."""
    lines = candidate.files[SOURCE].splitlines()
    return "\n" + clip(f"line {number}: {lines[number - 1].strip()}") if 0 < number <= len(lines) else ""
