"""Builds a candidate with AddressSanitizer and those checks of UndefinedBehaviorSanitizer that no honest kernel triggers."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from evokernel.backends.cpp.build import FLAGS, LIBRARY, SOURCE, TIMEOUT_S, compile_kernel, write_sources
from evokernel.backends.native.diagnostics import raise_if_compiler_killed, summarize_errors
from evokernel.backends.native.toolchain import compiler_version_text, find_compiler, is_gcc, missing_compiler_message, run_compiler
from evokernel.core.backend import OptionalTool
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.records import Candidate, Task

NAME = "sanitizer"
GCC = (("libasan.so",), ("libubsan.so",))
CLANG = ((f"libclang_rt.asan-{platform.machine()}.so", "libclang_rt.asan.so"),)
EXCEPTION_RUNTIMES = ("libstdc++.so.6", "libc++abi.so.1")
"""Preloaded too, because otherwise the sanitizer does not find the functions that throw exceptions."""
PATTERN_INIT_OPTION = "-ftrivial-auto-var-init=pattern"
"""Fills uninitialised local variables with a fixed bit pattern, if the compiler supports it."""


@lru_cache
def read_sanitizer_settings() -> dict[str, dict[str, object]]:
    """Reads the tables of `sanitizer.toml`."""
    return tomllib.loads((Path(__file__).parent / "sanitizer.toml").read_text())


def find_sanitizer(compiler: str) -> OptionalTool:
    """Reports whether the compiler comes with its sanitizers."""
    path = find_compiler(compiler)
    if path is None:
        return OptionalTool(NAME, False, missing_compiler_message(compiler) or "no C++ compiler")
    if sys.platform != "linux":
        return OptionalTool(NAME, False, "the sanitizer runs on Linux only, so invalid memory accesses may go unnoticed")
    if find_runtime_libraries(path):
        return OptionalTool(NAME, True, "AddressSanitizer and UndefinedBehaviorSanitizer, run on every correct kernel")
    fix = "apt install libasan8 libubsan1, dnf install libasan libubsan, or install clang's compiler-rt"
    return OptionalTool(NAME, False, f"{Path(path).name} has no sanitizer, so invalid memory accesses may go unnoticed; {fix}")


@lru_cache
def find_runtime_libraries(path: str) -> str | None:
    """Returns the libraries to preload, or None if a required one is missing."""
    libraries = [find_first_library(path, names) for names in (GCC if is_gcc(path) else CLANG)]
    return " ".join(filter(None, (libraries[0], find_first_library(path, EXCEPTION_RUNTIMES)))) if all(libraries) else None


def has_vector_alignment_bug(path: str) -> bool:
    """Whether GCC bug 110027 misaligns 64-byte vectors in stack frames that use-after-return detection keeps."""
    match = re.search(r"\) (\d+)\.(\d+)", compiler_version_text(path)) if is_gcc(path) and platform.machine() == "x86_64" else None
    number = (int(match[1]), int(match[2])) if match else (99, 0)
    return number < (12, 4) or (13, 0) <= number < (13, 3)


def find_first_library(path: str, libraries: Sequence[str]) -> str | None:
    """Returns the path of the first of several libraries that the compiler has."""
    return next((place for name in libraries if (place := locate_library(path, name))), None)


def locate_library(path: str, library: str) -> str | None:
    """Asks the compiler for the path of a library. It repeats the bare name of a library that it does not have."""
    command, variables = [path, f"-print-file-name={library}"], {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    try:
        place = Path(subprocess.run(command, capture_output=True, text=True, timeout=30, env=variables).stdout.strip())
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InfraError(f"cannot ask {path} for the path of {library}: {error}") from error
    return str(place.resolve()) if place.is_absolute() and place.exists() else None


@lru_cache
def accepts_option(path: str, option: str) -> bool:
    """Whether a compiler accepts an option."""
    with tempfile.TemporaryDirectory(
        prefix=f"evokernel-verify-{os.getpid()}-"
    ) as folder:  # the verifier removes folders of this name if this process is killed
        (Path(folder) / SOURCE).write_text("")
        return run_compiler(path, [option, "-fsyntax-only", SOURCE], Path(folder), TIMEOUT_S).code == 0


def build_instrumented(
    compiler: str, flags: str, task: Task, candidate: Candidate, workdir: Path, timeout_s: float = TIMEOUT_S
) -> dict[str, str]:
    """Builds an instrumented library in `workdir`; returns the environment for the process that loads it."""
    path = find_compiler(compiler)
    preload_libraries = find_runtime_libraries(path) if path else None
    if path is None or preload_libraries is None:
        raise UserError(find_sanitizer(compiler).detail)
    text = candidate.files[SOURCE]
    write_sources(task, text, workdir)
    sanitizer_options = [
        *str(read_sanitizer_settings()["compiler"]["options"]).split(),
        f"-fsanitize={read_sanitizer_settings()['compiler']['checks']}",
    ]
    sanitizer_options += [] if is_gcc(path) else ["-shared-libasan"]
    sanitizer_options += [PATTERN_INIT_OPTION] if accepts_option(path, PATTERN_INIT_OPTION) else []
    compiler_run = compile_kernel(path, [*FLAGS, *flags.split(), *sanitizer_options], workdir, timeout_s)
    raise_if_compiler_killed(compiler_run)
    if compiler_run.timed_out:
        raise CandidateError(
            "build_timeout", f"the sanitizer build did not finish within {timeout_s:g} s; use fewer templates and less unrolling"
        )
    if compiler_run.code or not (workdir / LIBRARY).exists():
        raise CandidateError(
            "compile_error", f"the kernel compiles, but not with the sanitizer:\n{summarize_errors(compiler_run.text, {SOURCE: text})}"
        )
    runtime_options = read_sanitizer_settings()["runtime"] | (
        {"detect_stack_use_after_return": 0} if has_vector_alignment_bug(path) else {}
    )
    options = ":".join(f"{name}={value}" for name, value in runtime_options.items())
    return {"LD_PRELOAD": preload_libraries, "ASAN_OPTIONS": options, "UBSAN_OPTIONS": "print_stacktrace=0"}
