"""Runs recorded programs under NVIDIA's tools, each in a separate process: compute-sanitizer and Nsight Compute."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from evokernel.backends.gpu.cubin import uses_shared_memory
from evokernel.backends.gpu.program import FILE, Launch, program_key, read_programs
from evokernel.backends.gpu.replay import read_images
from evokernel.backends.gpu.standalone import INPUTS
from evokernel.backends.gpu.tool_processes import run_tool
from evokernel.core.backend import Arguments
from evokernel.core.errors import CandidateError, ToolUnavailable

TOOLS = (("memcheck", "--padding", "4096"), ("racecheck",), ("initcheck",), ("synccheck",))
SHARED_MEMORY_TOOL, BARRIER_TOOL = "racecheck", "synccheck"
SYNCHRONIZATION = re.compile(r"\.sync\b|\bbar\b|\bbarrier\b|\bmbarrier\b")
TIMEOUT_S = 120.0
LEFT, DONE = "========= ", "done"
LINES = 4
PLACE = re.compile(r"\+0x[0-9a-f]+( in |$)")


class FindingPattern(NamedTuple):
    """How a finding's first line begins, its reason, and a hint."""

    prefix: str
    reason: str
    hint: str


FINDINGS = (
    FindingPattern("Invalid __global__", "out_of_bounds", "an index exceeds the tensor; guard the last block and the tail"),
    FindingPattern(
        "Invalid __shared__",
        "out_of_bounds",
        "an index exceeds a shared array, or the launch requests too little dynamic shared memory",
    ),
    FindingPattern("Invalid __local__", "out_of_bounds", "an index goes past the end of an array of the thread's own"),
    FindingPattern("Misaligned", "alignment", "wide loads need addresses that are multiples of their size: rows of odd length have others"),
    FindingPattern("Error: Race", "race", "put __syncthreads() between writing and reading shared memory"),
    FindingPattern("Warning: Race", "race", "put __syncthreads() between writing and reading shared memory"),
    FindingPattern(
        "Uninitialized __global__", "undefined", "the kernel reads uninitialised memory; scratch and outputs hold garbage before the call"
    ),
    FindingPattern("Barrier error", "race", "all threads of a block, or all threads of a mask, must reach the same barrier"),
)


def write_standalone_order(folder: Path, programs: Path, calls: Sequence[Arguments], times: int = 1) -> None:
    """Writes a request for `standalone`, with the inputs of every call."""
    keys = []
    for index, call in enumerate(calls):
        tensors = [(tensor.dtype, tensor.data.shape) for tensor in (*call.inputs, *call.outputs)]
        keys.append(program_key(tensors, [(kind, value) for _, kind, value in call.scalars]))
        (folder / f"{index}.bin").write_bytes(b"".join(tensor.data.tobytes() for tensor in call.inputs))
    (folder / INPUTS).write_text(json.dumps({"programs": str(programs), "keys": keys, "times": times}))


def list_commands(tool: str) -> list[tuple[str, ...]]:
    """Returns the command of each of compute-sanitizer's tools."""
    return [(tool, "--print-limit", "1", "--show-backtrace", "no", "--tool", *one) for one in TOOLS]


def list_needed_tools(programs: Path) -> list[str]:
    """Returns the tools that can find something in these programs: races need shared memory, and misused barriers need one.

    The machine code and the text it was assembled from decide; of code that has no such text, every tool may find something.
    """
    images, texts = read_images(programs), {path.stem: path.read_text() for path in programs.glob("*.ptx")}
    launches = [step for program in read_programs(programs / FILE).values() for step in program.steps if isinstance(step, Launch)]
    has_shared = any(launch.shared for launch in launches) or any(map(uses_shared_memory, images.values()))
    has_barriers = any(Path(name).stem not in texts for name in images) or any(map(SYNCHRONIZATION.search, texts.values()))
    skipped = {*([] if has_shared else [SHARED_MEMORY_TOOL]), *([] if has_shared or has_barriers else [BARRIER_TOOL])}
    return [name for name, *_ in TOOLS if name not in skipped]


def run_compute_sanitizer(tool: str, folder: Path, sources: Mapping[str, str], number: int, names: Sequence[str]) -> None:
    """Runs these tools of compute-sanitizer in parallel; raises CandidateError for the first finding."""
    commands = [command for command, (name, *_) in zip(list_commands(tool), TOOLS) if name in names]
    with ThreadPoolExecutor(len(TOOLS)) as pool:
        texts = list(pool.map(lambda command: run_tool(command, number, folder, TIMEOUT_S), commands))
    for text in texts:
        if error := parse_first_finding(text, sources):
            raise error
    for name, text in zip(names, texts):
        if DONE not in text.splitlines():
            message = next((line.removeprefix(LEFT) for line in text.splitlines() if "rror" in line), text[-200:])
            raise ToolUnavailable(f"compute-sanitizer's {name} does not work here: {message.strip()[:200]}")


def parse_first_finding(text: str, sources: Mapping[str, str]) -> CandidateError | None:
    """Parses the first finding of a tool, with the source line it names."""
    lines = [line.removeprefix(LEFT).strip() for line in text.splitlines() if line.startswith(LEFT.rstrip())]
    for index, line in enumerate(lines):
        if pattern := next((one for one in FINDINGS if line.startswith(one.prefix)), None):
            finding_lines = [
                line,
                *(more for more in lines[index + 1 : index + LINES] if more.startswith(("at ", "by ", "and ", "Address"))),
            ]
            words = [PLACE.sub(r"\1", part) for part in finding_lines if not part.startswith("Address")]
            return CandidateError(pattern.reason, "\n".join([*words, *quote_source_lines(words, sources), f"Hint: {pattern.hint}"]))
    return None


def quote_source_lines(words: Sequence[str], sources: Mapping[str, str]) -> list[str]:
    """Quotes the candidate's source lines that a report names."""
    quotes = []
    for name, number in re.findall(r"in ([\w.]+):(\d+)", "\n".join(words)):
        source_lines = sources.get(name, "").splitlines()
        if 0 < int(number) <= len(source_lines):
            quotes.append(f"{name}:{number}:     {source_lines[int(number) - 1].strip()[:160]}")
    return list(dict.fromkeys(quotes))
