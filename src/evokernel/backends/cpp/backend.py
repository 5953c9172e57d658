"""The `cpp` plug-in. Everything but `load` is imported when asked for, because the child loads this file for every candidate."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.core.protocols import Kernel, OptionalTool

if TYPE_CHECKING:
    from evokernel.core.errors import CandidateError
    from evokernel.core.records import Candidate, Outcome, Profile, Task


class CppBackend:
    """`compiler` "" means $CXX, else g++, else clang++; `flags` are added to the default ones; `threads` is what OpenMP may use;
    `build_timeout_s` is what compiling may take."""

    def __init__(self, compiler: str = "", flags: str = "", threads: int = 1, build_timeout_s: float = 60) -> None:
        if threads < 1:
            raise ValueError(f"threads must be at least 1, not {threads}")
        if not build_timeout_s > 0:
            raise ValueError(f"build_timeout_s must be above 0, not {build_timeout_s}")
        self.build_timeout_s = build_timeout_s
        self.compiler, self.flags, self.threads = compiler, flags, threads

    def unavailable_reason(self) -> str | None:
        from evokernel.backends.native.toolchain import missing

        return missing(self.compiler)

    def versions(self) -> dict[str, str]:
        from evokernel.backends.native.toolchain import find, processor, version

        path = find(self.compiler)
        return {"compiler": version(path), "processor": processor()} if path else {"processor": processor()}

    def optional_tools(self) -> Iterable[OptionalTool]:
        from evokernel.backends.cpp.ceilings import known
        from evokernel.backends.cpp.sanitizer_build import found

        return [found(self.compiler), *known()]

    def entry_point(self, task: Task) -> str:
        from evokernel.backends.cpp.abi import described

        return described(task.signature)

    def screen(self, task: Task, candidate: Candidate, workdir: Path) -> Iterable[str]:
        from evokernel.backends.cpp.screen import rules
        from evokernel.backends.native.screen import findings

        for name, text in sorted(candidate.files.items()):
            yield from findings(name, text, rules())

    def build(self, task: Task, candidate: Candidate, workdir: Path) -> None:
        from evokernel.backends.cpp.build import build

        build(self.compiler, self.flags, task, candidate, workdir, self.build_timeout_s)

    def load(self, workdir: Path) -> Kernel:
        from evokernel.backends.cpp.loader import CppKernel
        from evokernel.backends.cpp.sanitizer_run import WatchedKernel, is_watched

        return (WatchedKernel if is_watched() else CppKernel)(workdir / "kernel.so")

    def sanitizer(self) -> OptionalTool | None:
        from evokernel.backends.cpp.sanitizer_build import found

        return found(self.compiler)

    def build_sanitized(self, task: Task, candidate: Candidate, workdir: Path) -> dict[str, str]:
        from evokernel.backends.cpp.sanitizer_build import build

        return build(self.compiler, self.flags, task, candidate, workdir, self.build_timeout_s)

    def parse_sanitizer_report(self, candidate: Candidate, workdir: Path, report: str) -> CandidateError | None:
        from evokernel.backends.cpp.sanitizer_report import explained

        return explained(report, candidate, workdir)

    def profile(self, task: Task, outcome: Outcome) -> Profile | None:
        from evokernel.backends.cpp.profile import profile

        return profile(self.compiler, self.flags, self.threads, task, outcome)
