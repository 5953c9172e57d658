"""A `.cu` file to a shared object, with plain nvcc: host code that is linked to no CUDA runtime, device code for one architecture."""

from __future__ import annotations

import json
import os
import re
import shutil
import sysconfig
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from evokernel.backends.cuda.abi import declaration, harness
from evokernel.backends.cuda.record import KNOWN, LIBRARY, RECORDER
from evokernel.backends.native.diagnostics import refuse_failed
from evokernel.backends.native.toolchain import Compiled, compile, key_of, version_text
from evokernel.core import paths
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.records import Candidate, Task

SOURCE, HEADER = "kernel.cu", "harness.h"
HERE = Path(__file__).parent
FLAGS = (
    "-std=c++17",
    "-O3",
    "--no-compress",
    "-cudart",
    "none",
    "-shared",
    "-Xcompiler",
    "-fPIC,-fvisibility=hidden,-w",
    "-w",
    "-lineinfo",
)
RECORDING = ("-shared", "-cudart", "none", "-O1", "-Xcompiler", "-fPIC,-fvisibility=hidden,-w")
PLACES = ("/usr/local/cuda/bin/nvcc", "/opt/cuda/bin/nvcc")
PACKAGED = ("cu13", "cuda_nvcc")
MESSAGE = re.compile(
    r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?P<kind>(?:catastrophic |internal )?error|warning)(?: #[\w-]+)?: ", re.MULTILINE
)
"""How nvcc's own front end names a place."""
PTXAS = re.compile(r"ptxas (?:fatal|error)\s*: (?P<text>.+)")
NOMINAL = {
    "threads_per_block": 1024,
    "warp": 32,
    "clock_khz": 1_980_000,
    "multiprocessors": 132,
    "memory_clock_khz": 3_201_000,
    "memory_bus_bits": 6144,
    "l2_bytes": 60 << 20,
    "threads_per_multiprocessor": 2048,
    "major": 9,
    "minor": 0,
    "shared_per_multiprocessor": 228 << 10,
    "registers_per_multiprocessor": 65536,
    "shared_per_block": 227 << 10,
    "blocks_per_multiprocessor": 32,
}
"""What launch functions are told of the device where there is none: those of an H200."""
RUNTIME_S = 120.0
MISSING = "no nvcc: install the CUDA toolkit, or `pip install 'evokernel[cuda]'` to compile without one, or set backend.compiler"


def find(compiler: str) -> str | None:
    """The nvcc that will be used: the setting, $CUDACXX, $CUDA_HOME, PATH, the usual places, then the one from pip; None without any."""
    if compiler:
        return shutil.which(compiler)
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    wanted = [os.environ.get("CUDACXX", ""), f"{home}/bin/nvcc" if home else "", "nvcc", *PLACES]
    site = Path(sysconfig.get_path("purelib")) / "nvidia"
    wanted += [str(site / name / "bin" / "nvcc") for name in PACKAGED]
    return next((path for name in wanted if name and (path := shutil.which(name))), None)


def root(path: str) -> Path:
    """The toolkit's folder."""
    return Path(os.path.realpath(path)).parent.parent


def version(path: str) -> str:
    """As it says itself."""
    found = re.search(r"release [\d.]+, (V[\d.]+)", version_text(path))
    return f"nvcc {found[1]}" if found else "nvcc"


def build(
    path: str, flags: str, architecture: str, facts: Mapping[str, int], task: Task, candidate: Candidate, workdir: Path, timeout_s: float
) -> None:
    """Leaves the shared object, and the stand-in for the CUDA runtime it is recorded with."""
    if set(candidate.files) != {SOURCE}:
        there = ", ".join(sorted(candidate.files)) or "none"
        raise CandidateError("no_code", f"write exactly one file called {SOURCE} (found: {there})")
    text = candidate.files[SOURCE]
    if not text.strip():
        raise CandidateError("no_code", f"{SOURCE} is empty")
    recorder = recording_library(path)
    try:
        (workdir / SOURCE).write_text(text if text.endswith("\n") else text + "\n")
        (workdir / HEADER).write_text(harness(task.signature))
        (workdir / KNOWN).write_text(json.dumps({**NOMINAL, **facts}))
        shutil.copy(recorder, workdir / RECORDER)
    except OSError as error:
        raise InfraError(f"cannot write to {workdir}: {error}") from error
    options = [*FLAGS, *flags.split(), f"-arch={architecture}", "-include", HEADER, SOURCE, "-o", LIBRARY]
    done = compile(path, options, workdir, timeout_s, [root(path)])
    judge(done._replace(text=plain(done.text)), task, text, workdir, timeout_s)


def plain(text: str) -> str:
    """nvcc's messages in the form of other compilers'."""
    return MESSAGE.sub(lambda found: f"{found['file']}:{found['line']}: error: ", text)


def judge(done: Compiled, task: Task, source: str, workdir: Path, timeout_s: float) -> None:
    """Whose fault it is that there is no library."""
    if done.code and (found := PTXAS.search(done.text)):
        raise CandidateError("compile_error", f"ptxas: {found['text'].strip()}")
    if done.code and "No such file or directory" in done.text and "cc1plus" in done.text:
        raise UserError("nvcc finds no C++ compiler: install g++ (apt install g++)")
    try:
        refuse_failed(done, workdir / LIBRARY, {SOURCE: source}, timeout_s)
    except CandidateError as error:
        if re.search(
            r"linkage specification is incompatible|conflicting declaration of .*\bkernel\b|more than one instance of .*\"kernel\"",
            done.text,
        ):
            right = f"the entry point must be declared exactly so:\n{declaration(task.signature)}"
            raise CandidateError(error.reason, f"{error.detail}\n{right}") from error
        raise


@lru_cache
def recording_library(path: str) -> Path:
    """The stand-in, compiled once per machine and toolkit."""
    source = HERE / "recorder.cpp"
    folder = paths.cache_folder() / "cuda" / key_of(source.read_text(), version_text(path))
    made = folder / RECORDER
    with paths.hold_lock(folder / "lock"):
        if made.exists():
            return made
        try:
            with tempfile.TemporaryDirectory(dir=folder) as building:
                done = compile(path, [*RECORDING, str(source), "-o", RECORDER], Path(building), RUNTIME_S, [HERE, root(path)])
                if done.code:
                    raise InfraError(f"the stand-in for the CUDA runtime does not compile with {path}: {done.text[-600:]}")
                (Path(building) / RECORDER).replace(made)
        except OSError as error:
            raise InfraError(f"cannot write to {folder}: {error}") from error
    return made
