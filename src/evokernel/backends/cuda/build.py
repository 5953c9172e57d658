"""Builds a `.cu` file to a shared object with nvcc: host code without a CUDA runtime, device code for one architecture."""

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

from evokernel.backends.cuda.abi import c_prototype, harness_header
from evokernel.backends.cuda.record import DEVICE_FILE, LIBRARY, RECORDER
from evokernel.backends.gpu.model_facts import NOMINAL
from evokernel.backends.native.diagnostics import raise_for_failed_compile
from evokernel.backends.native.toolchain import CompilerRun, cache_key, compiler_version_text, run_compiler
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
NVCC_PATHS = ("/usr/local/cuda/bin/nvcc", "/opt/cuda/bin/nvcc")
PIP_FOLDERS = ("cu13", "cuda_nvcc")
MESSAGE = re.compile(
    r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?P<kind>(?:catastrophic |internal )?error|warning)(?: #[\w-]+)?: ", re.MULTILINE
)
"""How nvcc's front end formats a location."""
PTXAS = re.compile(r"ptxas (?:fatal|error)\s*: (?P<text>.+)")
RUNTIME_S = 120.0
MISSING = "there is no nvcc; install the CUDA toolkit, run pip install 'evokernel[cuda]' to compile without it, or set backend.compiler"


def find_nvcc(compiler: str) -> str | None:
    """Finds nvcc: the setting, $CUDACXX, $CUDA_HOME, PATH, the usual folders, then pip's; None if there is none."""
    if compiler:
        return shutil.which(compiler)
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    candidates = [os.environ.get("CUDACXX", ""), f"{home}/bin/nvcc" if home else "", "nvcc", *NVCC_PATHS]
    site = Path(sysconfig.get_path("purelib")) / "nvidia"
    candidates += [str(site / name / "bin" / "nvcc") for name in PIP_FOLDERS]
    return next((path for name in candidates if name and (path := shutil.which(name))), None)


def toolkit_folder(path: str) -> Path:
    """Returns the toolkit's folder."""
    return Path(os.path.realpath(path)).parent.parent


def nvcc_version(path: str) -> str:
    """Returns the version that nvcc reports."""
    match = re.search(r"release [\d.]+, (V[\d.]+)", compiler_version_text(path))
    return f"nvcc {match[1]}" if match else "nvcc"


def build_kernel(
    path: str,
    flags: str,
    architecture: str,
    attributes: Mapping[str, int],
    task: Task,
    candidate: Candidate,
    workdir: Path,
    timeout_s: float,
) -> None:
    """Builds the shared object and copies the recording runtime next to it."""
    if set(candidate.files) != {SOURCE}:
        names = ", ".join(sorted(candidate.files)) or "none"
        raise CandidateError("no_code", f"write exactly one file called {SOURCE} (found: {names})")
    text = candidate.files[SOURCE]
    if not text.strip():
        raise CandidateError("no_code", f"{SOURCE} is empty")
    recorder = build_recording_runtime(path)
    try:
        (workdir / SOURCE).write_text(text if text.endswith("\n") else text + "\n")
        (workdir / HEADER).write_text(harness_header(task.signature))
        (workdir / DEVICE_FILE).write_text(json.dumps({**NOMINAL, **attributes}))
        shutil.copy(recorder, workdir / RECORDER)
    except OSError as error:
        raise InfraError(f"cannot write to {workdir}: {error}") from error
    options = [*FLAGS, *flags.split(), f"-arch={architecture}", "-include", HEADER, SOURCE, "-o", LIBRARY]
    compiler_run = run_compiler(path, options, workdir, timeout_s, [toolkit_folder(path)])
    raise_for_compiler_errors(compiler_run._replace(text=normalize_messages(compiler_run.text)), task, text, workdir, timeout_s)


def normalize_messages(text: str) -> str:
    """Converts nvcc's messages to the format of other compilers."""
    return MESSAGE.sub(lambda match: f"{match['file']}:{match['line']}: error: ", text)


def raise_for_compiler_errors(compiler_run: CompilerRun, task: Task, source: str, workdir: Path, timeout_s: float) -> None:
    """Raises the error of a failed compilation; adds the prototype if the candidate declared another one."""
    if compiler_run.code and (match := PTXAS.search(compiler_run.text)):
        raise CandidateError("compile_error", f"ptxas: {match['text'].strip()}")
    if compiler_run.code and "No such file or directory" in compiler_run.text and "cc1plus" in compiler_run.text:
        raise UserError("nvcc does not find a C++ compiler; install g++ (apt install g++)")
    try:
        raise_for_failed_compile(compiler_run, workdir / LIBRARY, {SOURCE: source}, timeout_s)
    except CandidateError as error:
        if re.search(
            r"linkage specification is incompatible|conflicting declaration of .*\bkernel\b|more than one instance of .*\"kernel\"",
            compiler_run.text,
        ):
            right = f"declare the entry point exactly as follows:\n{c_prototype(task.signature)}"
            raise CandidateError(error.reason, f"{error.detail}\n{right}") from error
        raise


@lru_cache
def build_recording_runtime(path: str) -> Path:
    """Compiles the recording runtime once per machine and toolkit."""
    source = HERE / "recorder.cpp"
    folder = paths.cache_folder() / "cuda" / cache_key(source.read_text(), compiler_version_text(path))
    library = folder / RECORDER
    with paths.hold_lock(folder / "lock"):
        if library.exists():
            return library
        try:
            with tempfile.TemporaryDirectory(dir=folder) as building:
                compiler_run = run_compiler(
                    path, [*RECORDING, str(source), "-o", RECORDER], Path(building), RUNTIME_S, [HERE, toolkit_folder(path)]
                )
                if compiler_run.code:
                    raise InfraError(f"the recording runtime does not compile with {path}: {compiler_run.text[-600:]}")
                (Path(building) / RECORDER).replace(library)
        except OSError as error:
            raise InfraError(f"cannot write to {folder}: {error}") from error
    return library
