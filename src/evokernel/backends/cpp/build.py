"""Builds a kernel: compiles and links the source, then checks the built object instead of trusting the source text."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from evokernel.backends.cpp.abi import c_prototype, harness_header, standard_includes
from evokernel.backends.cpp.screen import screen_rules
from evokernel.backends.native.diagnostics import raise_for_failed_compile, raise_if_compiler_killed
from evokernel.backends.native.elf import read_elf
from evokernel.backends.native.object_checks import check_kernel_object
from evokernel.backends.native.screen import check_expanded_text, pastes_tokens
from evokernel.backends.native.source_text import require_single_source
from evokernel.backends.native.toolchain import (
    HARDENING_FLAGS,
    CompilerRun,
    find_compiler,
    missing_compiler_message,
    precompiled,
    run_compiler,
)
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.records import Candidate, Task

SOURCE, HEADER, LIBRARY, EXPORTS = "kernel.cpp", "harness.h", "kernel.so", "exports.map"
TIMEOUT_S = 60.0
FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-fopenmp",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
)
QUIET = ("-fdiagnostics-color=never", "-fmax-errors=8", "-w")


def build_kernel(compiler: str, flags: str, task: Task, candidate: Candidate, workdir: Path, timeout_s: float = TIMEOUT_S) -> None:
    """Builds `kernel.so` in `workdir`, or raises CandidateError with a message for the next prompt."""
    text = require_single_source(candidate, SOURCE)
    path = find_compiler(compiler)
    if path is None:
        raise UserError(missing_compiler_message(compiler) or "no C++ compiler")
    write_sources(task, text, workdir)
    if pastes_tokens(text):
        check_expanded_macros(path, workdir, timeout_s)
    raise_for_compiler_errors(compile_kernel(path, [*FLAGS, *flags.split()], workdir, timeout_s), task, text, workdir, timeout_s)
    check_symbols(workdir / LIBRARY, task)


def write_sources(task: Task, text: str, workdir: Path) -> None:
    """Writes the candidate's source, the harness header and the export list into `workdir`."""
    try:
        (workdir / SOURCE).write_text(text if text.endswith("\n") else text + "\n")
        (workdir / HEADER).write_text(harness_header(task.signature))
        (workdir / EXPORTS).write_text("{ global: kernel; local: *; };\n")
    except OSError as error:
        raise InfraError(f"cannot write to {workdir}: {error}") from error


def compile_kernel(path: str, options: Sequence[str], workdir: Path, timeout_s: float = TIMEOUT_S) -> CompilerRun:
    """Compiles and links the files that `write_sources` wrote."""
    base = precompiled(path, options, standard_includes())
    include_options = ["-include", base] if base else []
    command = [*options, *QUIET, *include_options, "-include", HEADER, SOURCE, "-o", LIBRARY, "-lm"]
    if sys.platform == "linux":
        command += [f"-Wl,--version-script={EXPORTS}", HARDENING_FLAGS]
    compiler_run = run_compiler(path, command, workdir, timeout_s)
    if compiler_run.code and "march=native" in compiler_run.text:
        compiler_run = run_compiler(path, [flag for flag in command if flag != "-march=native"], workdir, timeout_s)
    return compiler_run


def raise_for_compiler_errors(compiler_run: CompilerRun, task: Task, source: str, workdir: Path, timeout_s: float) -> None:
    """Raises the error of a failed compilation; adds the prototype if the candidate declared another one."""
    try:
        raise_for_failed_compile(compiler_run, workdir / LIBRARY, {SOURCE: source}, timeout_s)
    except CandidateError as error:
        if re.search(r"(conflicting declaration of C function|conflicting types for) ['‘]?(void )?kernel", compiler_run.text):
            right = f"declare the entry point exactly as follows:\n{c_prototype(task.signature)}"
            raise CandidateError(error.reason, f"{error.detail}\n{right}") from error
        raise


def check_expanded_macros(path: str, workdir: Path, timeout_s: float) -> None:
    """Screens the preprocessed text as well, because macros that paste tokens can create words that the source does not contain."""
    compiler_run = run_compiler(path, ["-std=c++17", "-fopenmp", "-E", "-w", SOURCE, "-o", "expanded.ii"], workdir, timeout_s)
    raise_if_compiler_killed(compiler_run)
    if compiler_run.timed_out:
        raise CandidateError(
            "build_timeout", f"the preprocessor did not expand the macros in {SOURCE} within {timeout_s:g} s; use simpler macros"
        )
    if compiler_run.code:
        return  # the compilation will report the error
    if violations := check_expanded_text((workdir / "expanded.ii").read_text(errors="replace"), screen_rules(), {SOURCE}):
        raise CandidateError("forbidden", f"macros in {SOURCE} expand to forbidden code: {violations[0]}")


def check_symbols(library: Path, task: Task) -> None:
    """Checks that the library exports the entry point and imports and contains nothing forbidden."""
    library_object = read_elf(library)
    if library_object is None:
        return
    if "kernel" not in library_object.symbols.exported_names:
        raise CandidateError(
            "symbol", f"kernel.cpp does not define the entry point; define it exactly as declared:\n{c_prototype(task.signature)}"
        )
    check_kernel_object(library_object, screen_rules().allowed_symbols, "arithmetic, memory and OpenMP")
