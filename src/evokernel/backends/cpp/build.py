"""Text to shared object: compile, link, and look at what came out rather than at what was promised."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from evokernel.backends.cpp.abi import declaration, harness
from evokernel.backends.cpp.diagnostics import first_errors
from evokernel.backends.cpp.elf import read
from evokernel.backends.cpp.screen import allowed_symbols, pastes_tokens, unwanted_words
from evokernel.backends.cpp.toolchain import FLAGS, Compiled, compile, find, missing, precompiled
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.records import Candidate, Task

SOURCE, HEADER, LIBRARY, EXPORTS = "kernel.cpp", "harness.h", "kernel.so", "exports.map"
TIMEOUT_S = 60.0
STATIC_BYTES = 256 << 20
HARDENED = "-Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code,-z,text"
"""Tables of the loader cannot be written, constants cannot be executed."""
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
    base = precompiled(path, options)
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
    if done.timed_out or "CPU time limit exceeded" in done.text:
        raise CandidateError("build_timeout", f"the compiler did not finish within {timeout_s:g} s: fewer templates, less unrolling")
    if done.code == 0 and (workdir / LIBRARY).exists():
        return
    refuse_killed(done)
    if "out of memory" in done.text or "virtual memory exhausted" in done.text or "cannot allocate memory" in done.text.lower():
        raise CandidateError("memory", "the compiler ran out of memory: smaller static tables, fewer templates")
    if "No space left on device" in done.text:
        raise InfraError("no space left on the device for building")
    if lacking := re.search(
        r"cannot find -l\w+|unable to find library -l\w+|library not found for -l\w+|cannot execute .?cc1plus.?", done.text
    ):
        raise UserError(
            f"the C++ compiler is incomplete ({lacking[0]}): install g++ with OpenMP (apt install g++), or set backend.compiler"
        )
    detail = first_errors(done.text, source)
    if re.search(r"(conflicting declaration of C function|conflicting types for) ['‘]?(void )?kernel", done.text):
        detail += f"\nthe entry point must be declared exactly so:\n{declaration(task.signature)}"
    raise CandidateError("compile_error", detail)


def refuse_killed(done: Compiled) -> None:
    """A compiler that was killed says nothing about the candidate; the judge tries again."""
    if done.is_killed:
        raise CandidateError("killed", "the compiler was killed from outside, perhaps for lack of memory")


def check_expanded(path: str, workdir: Path, timeout_s: float) -> None:
    """Macros that paste tokens can spell words the text does not hold, so the expanded text is screened as well."""
    done = compile(path, ["-std=c++17", "-fopenmp", "-E", "-w", SOURCE, "-o", "expanded.ii"], workdir, timeout_s)
    refuse_killed(done)
    if done.timed_out:
        raise CandidateError("build_timeout", f"macros in {SOURCE} do not expand within {timeout_s:g} s")
    if done.code:
        return  # the compiler proper will say what is wrong
    if found := unwanted_words(own_part((workdir / "expanded.ii").read_text(errors="replace"))):
        raise CandidateError("forbidden", f"macros in {SOURCE} spell what its text does not say: {found[0]}")


def own_part(expanded: str) -> str:
    """The lines of preprocessed text that stem from the candidate, not from a header."""
    own, kept = False, []
    for line in expanded.splitlines():
        if marker := re.match(r'# \d+ "([^"]*)"', line):
            own = marker[1] == SOURCE
        elif own:
            kept.append(line)
    return "\n".join(kept)


def check_symbols(library: Path, task: Task) -> None:
    """Refuses what is called from outside, what hides the entry point, and what an honest object does not hold."""
    built = read(library)
    if built is None:
        return
    found = built.symbols
    if "kernel" not in found.offered:
        raise CandidateError("symbol", f"kernel.cpp does not define the entry point:\n{declaration(task.signature)}")
    foreign = [name for name in found.needed if not allowed_symbols().fullmatch(name)]
    if undefined := [name for name in foreign if name.startswith("_Z") and not name.startswith(("_ZNSt", "_ZNKSt", "_ZSt"))]:
        raise CandidateError("symbol", f"declared but never defined: {', '.join(map(readable, undefined[:5]))}")
    if foreign:
        raise CandidateError(
            "forbidden", f"calls {', '.join(foreign[:5])}: a kernel may use arithmetic, memory and OpenMP, nothing of the system"
        )
    if built.static_bytes > STATIC_BYTES:
        raise CandidateError("memory", f"static storage of more than {STATIC_BYTES >> 20} MiB: take scratch from the heap, within the call")
    if odd := list(built.oddities()):
        raise CandidateError("forbidden", "the built object is not that of a kernel: " + "; ".join(odd))


def readable(symbol: str) -> str:
    """The function's own name inside a mangled symbol."""
    match = re.match(r"_ZN?K?(\d+)", symbol)
    return symbol[match.end() : match.end() + int(match[1])] if match else symbol
