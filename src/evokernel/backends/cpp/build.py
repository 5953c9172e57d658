"""Text to shared object: compile, link, and look at what came out rather than at what was promised."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from evokernel.backends.cpp.abi import declaration, harness, includes
from evokernel.backends.cpp.screen import rules
from evokernel.backends.native.diagnostics import refuse_failed, refuse_killed
from evokernel.backends.native.elf import read
from evokernel.backends.native.object_checks import refuse_dishonest
from evokernel.backends.native.screen import pastes_tokens, unwanted_words
from evokernel.backends.native.toolchain import HARDENED, Compiled, compile, find, missing, precompiled
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


def build(compiler: str, flags: str, task: Task, candidate: Candidate, workdir: Path, timeout_s: float = TIMEOUT_S) -> None:
    """Leaves `kernel.so` in `workdir`, or raises CandidateError in words the next generation can use."""
    if set(candidate.files) != {SOURCE}:
        there = ", ".join(sorted(candidate.files)) or "none"
        raise CandidateError("no_code", f"write exactly one file called {SOURCE} (found: {there})")
    text = candidate.files[SOURCE]
    if not text.strip():
        raise CandidateError("no_code", f"{SOURCE} is empty")
    path = find(compiler)
    if path is None:
        raise UserError(missing(compiler) or "no C++ compiler")
    write(task, text, workdir)
    if pastes_tokens(text):
        check_expanded(path, workdir, timeout_s)
    judge(compile_kernel(path, [*FLAGS, *flags.split()], workdir, timeout_s), task, text, workdir, timeout_s)
    check_symbols(workdir / LIBRARY, task)


def write(task: Task, text: str, workdir: Path) -> None:
    """What the compiler reads."""
    try:
        (workdir / SOURCE).write_text(text if text.endswith("\n") else text + "\n")
        (workdir / HEADER).write_text(harness(task.signature))
        (workdir / EXPORTS).write_text("{ global: kernel; local: *; };\n")
    except OSError as error:
        raise InfraError(f"cannot write to {workdir}: {error}") from error


def compile_kernel(path: str, options: Sequence[str], workdir: Path, timeout_s: float = TIMEOUT_S) -> Compiled:
    """Compiles and links what `write` left."""
    base = precompiled(path, options, includes())
    included = ["-include", base] if base else []
    command = [*options, *QUIET, *included, "-include", HEADER, SOURCE, "-o", LIBRARY, "-lm"]
    if sys.platform == "linux":
        command += [f"-Wl,--version-script={EXPORTS}", HARDENED]
    done = compile(path, command, workdir, timeout_s)
    if done.code and "march=native" in done.text:
        done = compile(path, [flag for flag in command if flag != "-march=native"], workdir, timeout_s)
    return done


def judge(done: Compiled, task: Task, source: str, workdir: Path, timeout_s: float) -> None:
    """Whose fault it is that there is no library."""
    try:
        refuse_failed(done, workdir / LIBRARY, {SOURCE: source}, timeout_s)
    except CandidateError as error:
        if re.search(r"(conflicting declaration of C function|conflicting types for) ['‘]?(void )?kernel", done.text):
            right = f"the entry point must be declared exactly so:\n{declaration(task.signature)}"
            raise CandidateError(error.reason, f"{error.detail}\n{right}") from error
        raise


def check_expanded(path: str, workdir: Path, timeout_s: float) -> None:
    """Macros that paste tokens can spell words the text does not hold, so the expanded text is screened as well."""
    done = compile(path, ["-std=c++17", "-fopenmp", "-E", "-w", SOURCE, "-o", "expanded.ii"], workdir, timeout_s)
    refuse_killed(done)
    if done.timed_out:
        raise CandidateError("build_timeout", f"macros in {SOURCE} do not expand within {timeout_s:g} s")
    if done.code:
        return  # the compiler proper will say what is wrong
    if found := unwanted_words((workdir / "expanded.ii").read_text(errors="replace"), rules(), {SOURCE}):
        raise CandidateError("forbidden", f"macros in {SOURCE} spell what its text does not say: {found[0]}")


def check_symbols(library: Path, task: Task) -> None:
    """Refuses what hides the entry point, what is called from outside, and what an honest object does not hold."""
    built = read(library)
    if built is None:
        return
    if "kernel" not in built.symbols.offered:
        raise CandidateError("symbol", f"kernel.cpp does not define the entry point:\n{declaration(task.signature)}")
    refuse_dishonest(built, rules().symbols, "arithmetic, memory and OpenMP")
