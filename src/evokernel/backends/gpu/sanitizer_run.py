"""Recorded programs under the vendor's tools, each in a process of its own: a sanitizer says what is wrong, a profiler what is slow."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from evokernel.backends.gpu.program import key
from evokernel.backends.gpu.standalone import INPUTS
from evokernel.core import isolated_python
from evokernel.core.errors import CandidateError, ToolUnavailable
from evokernel.core.protocols import Arguments

TOOLS = (("memcheck", "--padding", "4096"), ("racecheck",), ("initcheck",), ("synccheck",))
TIMEOUT_S = 120.0
LEFT, DONE = "========= ", "done"
LINES = 4
PLACE = re.compile(r"\+0x[0-9a-f]+( in |$)")


class Finding(NamedTuple):
    """How a tool's first line begins, what that is called here, and a hint."""

    begins: str
    reason: str
    hint: str


FINDINGS = (
    Finding("Invalid __global__", "out_of_bounds", "an index goes past the end of a tensor: guard the last block and the tail"),
    Finding(
        "Invalid __shared__",
        "out_of_bounds",
        "an index goes past the end of a shared array, or too little dynamic shared memory is asked for",
    ),
    Finding("Invalid __local__", "out_of_bounds", "an index goes past the end of an array of the thread's own"),
    Finding("Misaligned", "alignment", "wide loads need addresses that are multiples of their size: rows of odd length have others"),
    Finding("Error: Race", "race", "put __syncthreads() between writing and reading shared memory"),
    Finding("Warning: Race", "race", "put __syncthreads() between writing and reading shared memory"),
    Finding(
        "Uninitialized __global__", "undefined", "memory that nobody has written is read: scratch and outputs hold nothing before the call"
    ),
    Finding("Barrier error", "race", "all threads of a block, or all that a mask names, must reach the same barrier"),
)


def lay_out(folder: Path, programs: Path, calls: Sequence[Arguments], number: int, times: int = 1) -> None:
    """An order for `standalone`, with the inputs of every call."""
    keys = []
    for index, call in enumerate(calls):
        tensors = [(tensor.dtype, tensor.data.shape) for tensor in (*call.inputs, *call.outputs)]
        keys.append(key(tensors, [(kind, value) for _, kind, value in call.scalars]))
        (folder / f"{index}.bin").write_bytes(b"".join(tensor.data.tobytes() for tensor in call.inputs))
    (folder / INPUTS).write_text(json.dumps({"programs": str(programs), "device": number, "keys": keys, "times": times}))


def run(command: Sequence[str], folder: Path, timeout_s: float) -> str:
    """What a tool prints about `standalone`."""
    whole = [*command, *isolated_python.isolated_command("evokernel.backends.gpu.standalone", "main", str(folder))]
    try:
        done = subprocess.run(whole, capture_output=True, text=True, timeout=timeout_s, cwd=folder, check=False)
    except subprocess.TimeoutExpired as error:
        raise ToolUnavailable(f"{Path(command[0]).name} did not finish within {timeout_s:g} s") from error
    except OSError as error:
        raise ToolUnavailable(f"{Path(command[0]).name} cannot be started: {error}") from error
    return done.stdout + done.stderr


def sanitize(tool: str, folder: Path, sources: Mapping[str, str]) -> None:
    """All kinds of watching at a time; raises the first thing found."""
    with ThreadPoolExecutor(len(TOOLS)) as pool:
        command = (tool, "--print-limit", "1", "--show-backtrace", "no")
        texts = list(pool.map(lambda one: run((*command, "--tool", *one), folder, TIMEOUT_S), TOOLS))
    for text in texts:
        if error := finding(text, sources):
            raise error
    for (name, *_), text in zip(TOOLS, texts):
        if DONE not in text.splitlines():
            said = next((line.removeprefix(LEFT) for line in text.splitlines() if "rror" in line), text[-200:])
            raise ToolUnavailable(f"compute-sanitizer's {name} does not work here: {said.strip()[:200]}")


def finding(text: str, sources: Mapping[str, str]) -> CandidateError | None:
    """What a tool reports first, with the line of the kernel it names."""
    lines = [line.removeprefix(LEFT).strip() for line in text.splitlines() if line.startswith(LEFT.rstrip())]
    for index, line in enumerate(lines):
        if found := next((one for one in FINDINGS if line.startswith(one.begins)), None):
            told = [line, *(more for more in lines[index + 1 : index + LINES] if more.startswith(("at ", "by ", "and ", "Address")))]
            words = [PLACE.sub(r"\1", part) for part in told if not part.startswith("Address")]
            return CandidateError(found.reason, "\n".join([*words, *quoted(words, sources), f"Hint: {found.hint}"]))
    return None


def quoted(words: Sequence[str], sources: Mapping[str, str]) -> list[str]:
    """The lines of the candidate that a report names."""
    found = []
    for name, number in re.findall(r"in ([\w.]+):(\d+)", "\n".join(words)):
        own = sources.get(name, "").splitlines()
        if 0 < int(number) <= len(own):
            found.append(f"{name}:{number}:     {own[int(number) - 1].strip()[:160]}")
    return list(dict.fromkeys(found))
