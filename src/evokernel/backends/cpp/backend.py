"""The `cpp` plug-in. Imports are local to methods, because every candidate process loads this file and needs only `load`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.core.backend import Backend, Capabilities, Kernel, OptionalTool

if TYPE_CHECKING:
    from evokernel.core.errors import CandidateError
    from evokernel.core.records import Candidate, Outcome, Profile, Task


class CppBackend(Backend):
    """Compiles C++ kernels and runs them on this machine's processor.

    `compiler` "" means $CXX, else g++, else clang++. `flags` are added to the default flags. `threads` is the number of OpenMP threads.
    `build_timeout_s` limits one compilation.
    """

    same_suffixes = (".cc", ".cxx", ".c++")

    def __init__(self, compiler: str = "", flags: str = "", threads: int = 1, build_timeout_s: float = 60) -> None:
        if threads < 1:
            raise ValueError(f"threads must be at least 1, not {threads}")
        if not build_timeout_s > 0:
            raise ValueError(f"build_timeout_s must be above 0, not {build_timeout_s}")
        self.build_timeout_s = build_timeout_s
        self.compiler, self.flags, self.threads = compiler, flags, threads

    def unavailable_reason(self) -> str | None:
        from evokernel.backends.native.toolchain import missing_compiler_message

        return missing_compiler_message(self.compiler)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(sanitizer="instrumented")

    def versions(self) -> dict[str, str]:
        from evokernel.backends.native.toolchain import compiler_version, find_compiler, processor_name

        path = find_compiler(self.compiler)
        return {"compiler": compiler_version(path), "processor": processor_name()} if path else {"processor": processor_name()}

    def optional_tools(self) -> Iterable[OptionalTool]:
        from evokernel.backends.cpp.ceilings import latest_ceilings
        from evokernel.backends.cpp.sanitizer_build import find_sanitizer

        return [find_sanitizer(self.compiler), *latest_ceilings()]

    def entry_point(self, task: Task) -> str:
        from evokernel.backends.cpp.abi import annotated_prototype

        return annotated_prototype(task.signature)

    def screen(self, task: Task, candidate: Candidate, workdir: Path) -> Iterable[str]:
        from evokernel.backends.cpp.screen import screen_rules
        from evokernel.backends.native.screen import find_violations

        for name, text in sorted(candidate.files.items()):
            yield from find_violations(name, text, screen_rules())

    def build(self, task: Task, candidate: Candidate, workdir: Path) -> None:
        from evokernel.backends.cpp.build import build_kernel

        build_kernel(self.compiler, self.flags, task, candidate, workdir, self.build_timeout_s)

    def load(self, workdir: Path) -> Kernel:
        from evokernel.backends.cpp.sanitizer_run import SanitizedKernel, is_sanitized_process
        from evokernel.backends.native.loader import NativeKernel

        return (SanitizedKernel if is_sanitized_process() else NativeKernel)(workdir / "kernel.so")

    def sanitizer(self) -> OptionalTool:
        from evokernel.backends.cpp.sanitizer_build import find_sanitizer

        return find_sanitizer(self.compiler)

    def build_sanitized(self, task: Task, candidate: Candidate, workdir: Path) -> dict[str, str]:
        from evokernel.backends.cpp.sanitizer_build import build_instrumented

        return build_instrumented(self.compiler, self.flags, task, candidate, workdir, self.build_timeout_s)

    def parse_sanitizer_report(self, candidate: Candidate, workdir: Path, report: str) -> CandidateError | None:
        from evokernel.backends.cpp.sanitizer_report import explain_report

        return explain_report(report, candidate, workdir)

    def profile(self, task: Task, outcome: Outcome) -> Profile | None:
        from evokernel.backends.cpp.profile import compare_with_ceilings

        return compare_with_ceilings(self.compiler, self.flags, self.threads, task, outcome)
