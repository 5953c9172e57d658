"""Builds a candidate with AddressSanitizer and the checks of UndefinedBehaviorSanitizer that no honest kernel trips over."""

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

from evokernel.backends.cpp.build import FLAGS, LIBRARY, SOURCE, TIMEOUT_S, compile_kernel, write
from evokernel.backends.native.diagnostics import first_errors, refuse_killed
from evokernel.backends.native.toolchain import compile, find, is_gcc, missing, version_text
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.protocols import OptionalTool
from evokernel.core.records import Candidate, Task

NAME = "sanitizer"
GCC = (("libasan.so",), ("libubsan.so",))
CLANG = ((f"libclang_rt.asan-{platform.machine()}.so", "libclang_rt.asan.so"),)
THROWING = ("libstdc++.so.6", "libc++abi.so.1")
"""Loaded with the process as well, or the sanitizer does not find what throws exceptions."""
OPTIONAL = "-ftrivial-auto-var-init=pattern"
"""Locals that were never set hold the same odd bits always, where the compiler can do that."""


@lru_cache
def settings() -> dict[str, dict[str, object]]:
    """The tables of `sanitizer.toml`."""
    return tomllib.loads((Path(__file__).parent / "sanitizer.toml").read_text())


def found(compiler: str) -> OptionalTool:
    """Whether the compiler comes with its sanitizers."""
    path = find(compiler)
    if path is None:
        return OptionalTool(NAME, False, missing(compiler) or "no C++ compiler")
    if sys.platform != "linux":
        return OptionalTool(NAME, False, "memory accesses of kernels are watched on Linux only")
    if runtime(path):
        return OptionalTool(NAME, True, "AddressSanitizer and UndefinedBehaviorSanitizer, run on every correct kernel")
    fix = "apt install libasan8 libubsan1, dnf install libasan libubsan, or install clang's compiler-rt"
    return OptionalTool(NAME, False, f"{Path(path).name} has none, so memory accesses of kernels are not watched: {fix}")


@lru_cache
def runtime(path: str) -> str | None:
    """The libraries that have to be loaded first, when all that are needed are there."""
    located = [first(path, names) for names in (GCC if is_gcc(path) else CLANG)]
    return " ".join(filter(None, (located[0], first(path, THROWING)))) if all(located) else None


def misplaces_vectors(path: str) -> bool:
    """Whether frames that are kept for later have no room for vectors of 64 bytes at their alignment (GCC's bug 110027)."""
    found = re.search(r"\) (\d+)\.(\d+)", version_text(path)) if is_gcc(path) and platform.machine() == "x86_64" else None
    number = (int(found[1]), int(found[2])) if found else (99, 0)
    return number < (12, 4) or (13, 0) <= number < (13, 3)


def first(path: str, libraries: Sequence[str]) -> str | None:
    """The first of several that the compiler has."""
    return next((place for name in libraries if (place := locate(path, name))), None)


def locate(path: str, library: str) -> str | None:
    """Where a compiler keeps one of its libraries; it only repeats the name of one it does not have."""
    command, variables = [path, f"-print-file-name={library}"], {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    try:
        place = Path(subprocess.run(command, capture_output=True, text=True, timeout=30, env=variables).stdout.strip())
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InfraError(f"{path} does not say where {library} is: {error}") from error
    return str(place.resolve()) if place.is_absolute() and place.exists() else None


@lru_cache
def accepts(path: str, option: str) -> bool:
    """Whether a compiler knows an option."""
    with tempfile.TemporaryDirectory(prefix=f"evokernel-judge-{os.getpid()}-") as folder:  # a name the judge removes if this is killed
        (Path(folder) / SOURCE).write_text("")
        return compile(path, [option, "-fsyntax-only", SOURCE], Path(folder), TIMEOUT_S).code == 0


def build(compiler: str, flags: str, task: Task, candidate: Candidate, workdir: Path, timeout_s: float = TIMEOUT_S) -> dict[str, str]:
    """Leaves an instrumented library in `workdir`, and gives what the process that loads it needs in its environment."""
    path = find(compiler)
    preloaded = runtime(path) if path else None
    if path is None or preloaded is None:
        raise UserError(found(compiler).detail)
    text = candidate.files[SOURCE]
    write(task, text, workdir)
    own = [*str(settings()["compiler"]["options"]).split(), f"-fsanitize={settings()['compiler']['checks']}"]
    own += [] if is_gcc(path) else ["-shared-libasan"]
    own += [OPTIONAL] if accepts(path, OPTIONAL) else []
    done = compile_kernel(path, [*FLAGS, *flags.split(), *own], workdir, timeout_s)
    refuse_killed(done)
    if done.timed_out:
        raise CandidateError("build_timeout", f"not compiled for the sanitizer within {timeout_s:g} s: fewer templates, less unrolling")
    if done.code or not (workdir / LIBRARY).exists():
        raise CandidateError("compile_error", f"it compiles, but not for the sanitizer:\n{first_errors(done.text, {SOURCE: text})}")
    watching = settings()["runtime"] | ({"detect_stack_use_after_return": 0} if misplaces_vectors(path) else {})
    options = ":".join(f"{name}={value}" for name, value in watching.items())
    return {"LD_PRELOAD": preloaded, "ASAN_OPTIONS": options, "UBSAN_OPTIONS": "print_stacktrace=0"}
