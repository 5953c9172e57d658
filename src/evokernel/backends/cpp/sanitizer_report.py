"""Explains a sanitizer report to the author of a kernel: the invalid access, the memory it hit, and the source line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from evokernel.backends.cpp.build import LIBRARY, SOURCE
from evokernel.backends.native.diagnostics import clip_line
from evokernel.backends.native.source_text import quote_source_line, resolve_source_line
from evokernel.core.errors import CandidateError
from evokernel.core.records import Candidate

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
TOO_MUCH = "allocates more memory than it may use"
OTHERS = {
    "double-free": ("use_after_free", "frees the same memory twice"),
    "free on address": ("undefined", "frees memory that was not allocated"),
    "memcpy-param-overlap": ("undefined", "copies between places that overlap: use memmove"),
    "negative-size-param": ("out_of_bounds", "passes a negative size to a function that copies or fills memory"),
    "FPE": ("undefined", "divides an integer by zero"),
    "SEGV": ("out_of_bounds", "reads or writes memory that is not its own"),
    "BUS": ("out_of_bounds", "reads or writes memory that is not its own"),
}


class InvalidAccess(NamedTuple):
    """An invalid memory access."""

    verb: str
    size: int
    address: int


def explain_report(report: str, candidate: Candidate, workdir: Path) -> CandidateError | None:
    """Explains the first finding of a report; None if there is none."""
    source = candidate.files[SOURCE]
    candidate_match, any_match = UNDEFINED.search(report), UNDEFINED_ELSEWHERE.search(report)
    if any_match:
        text = re.sub(
            r"index -?\d+ ", "an index ", candidate_match[2] if candidate_match else any_match[1]
        )  # the index could reveal a hidden size
        reason = "out_of_bounds" if "out of bounds" in text else "undefined"
        return CandidateError(reason, clip_line(text) + (quote_source_line(int(candidate_match[1]), source) if candidate_match else ""))
    headline = report.find("AddressSanitizer: ")
    if headline < 0:
        return CandidateError("memory", f"the kernel {TOO_MUCH}") if LIMIT in report else None
    body = report[headline:]
    reason, words = classify_finding(body, [(name, int(at, 16), int(size)) for name, at, size in TENSOR.findall(report)])
    first, _, history = re.split(r"(\n\n|\nfreed by)", body + "\n\n", maxsplit=1)
    text = f"the kernel {words}{quote_source_line(find_frame_line(first, workdir), source)}"
    if "heap-use-after-free" in body and (free_line := find_frame_line(history.partition("\n\n")[0], workdir)):
        text += f"\nIt was freed here:{quote_source_line(free_line, source)}"
    return CandidateError(reason, text)


def classify_finding(body: str, tensors: list[tuple[str, int, int]]) -> tuple[str, str]:
    """Translates the sanitizer's own terms into a reason and a description."""
    headline = body.partition("\n")[0]
    match = ACCESS.search(body)
    access = InvalidAccess("reads" if match[1] == "READ" else "writes", int(match[2]), int(match[3], 16)) if match else None
    for name, what in USED_AFTER.items():
        if name in headline:
            return "use_after_free", f"{access.verb if access else 'uses'} {what}"
    if any(name in body for name in MEMORY):
        return "memory", TOO_MUCH
    if access:
        return "out_of_bounds", f"{access.verb} {describe_access_location(body, access, tensors)} (an access of {access.size} bytes)"
    for name, (reason, words) in OTHERS.items():
        if name in headline:
            return reason, words
    return "undefined", f"triggered the sanitizer: {clip_line(headline.removeprefix('AddressSanitizer: ').partition(' 0x')[0])}"


def describe_access_location(body: str, access: InvalidAccess, tensors: list[tuple[str, int, int]]) -> str:
    """Describes an invalid access relative to the nearest named memory: local array, static array, allocation or tensor."""
    if local := LOCAL.search(body):
        return f"{'before the start' if 'under' in local[2] else 'past the end'} of the local array `{local[1]}`"
    if variable := GLOBAL.search(body):
        return f"{'before the start' if variable[1] in BEFORE else 'past the end'} of the static array `{variable[2]}`"
    block = HEAP.search(body)
    if block and int(block[3], 16) not in [start for _, start, _ in tensors]:
        side = "before the start" if block[2] in BEFORE else "past the end"
        return f"{format_distance(int(block[1]))}{side} of memory it allocated"
    return locate_by_nearest_tensor(access, tensors)


def locate_by_nearest_tensor(access: InvalidAccess, tensors: list[tuple[str, int, int]]) -> str:
    """Describes an access relative to the nearest tensor."""
    if not tensors:
        return "outside its tensors"
    name, start, size = min(tensors, key=lambda tensor: max(tensor[1] - access.address, access.address - tensor[1] - tensor[2]))
    if access.address >= start:
        return f"{format_distance(access.address - start - size)}past the end of `{name}`"
    return f"{format_distance(start - access.address)}before the start of `{name}`"


def format_distance(distance: int) -> str:
    """Formats a distance in bytes; empty for zero."""
    return f"{distance} bytes " if distance > 0 else ""


def find_frame_line(frames: str, workdir: Path) -> int:
    """Returns the source line of the first stack frame inside the kernel; 0 if that is not possible."""
    return resolve_source_line(FRAME.findall(frames)[:4], LIBRARY, SOURCE, workdir)
