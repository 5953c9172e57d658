"""The `ascendc` plug-in. Everything but `load` is imported when asked for, because the child loads this file for every candidate."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.core.errors import CandidateError, InfraError
from evokernel.core.protocols import DeviceAccess, Kernel, OptionalTool, TimingResult

if TYPE_CHECKING:
    from evokernel.backends.ascendc.cann.backend import Beside, OnCard
    from evokernel.backends.ascendc.project import Project
    from evokernel.core.records import Candidate, Outcome, Profile, Task

CLOCK = "estimate (twin)"
LEVELS = ("strict", "hardware", "fast")
TOOLCHAINS = ("auto", "twin", "cann")
SIZES = ("small", "held_out", "bench")
SIX_PARTS = ("kernel_src", "host_tiling_src")


BUILD_S = 120.0
PLAN, INSTALLED = "plan.json", "cann.json"
"""How a candidate is called that was built for the twin, and what that marks its reports with; what CANN's build left."""


class AscendcBackend:
    """`chip` is what kernels are priced for: 910B1, 910B2, 910B3 or 910B4.

    `level` says what becomes of a broken rule of the hardware: it fails the kernel ("strict"), silicon's behaviour is reproduced and noted
    ("hardware"), or nobody looks ("fast"). `toolchain` is "twin" (our own, on any machine), "cann" (the real one) or "auto" (cann where
    there is a card). `run_s` is what one launch on the twin may take before only some of its blocks are run, `build_timeout_s` what
    compiling may take (120 s on the twin and 600 s with CANN, unless set), `compiler` the C++ compiler ("" for $CXX, else g++), `device`
    the number of the card.
    """

    file = "kernel.asc"
    takes = (".txt", ".cpp", ".h")
    parts = ("tiling.h", "op_host.cpp", "op_kernel.cpp")

    def __init__(
        self,
        chip: str = "910B2",
        level: str = "strict",
        toolchain: str = "auto",
        compiler: str = "",
        build_timeout_s: float | None = None,
        run_s: float = 15,
        device: int = 0,
    ) -> None:
        for name, value, known in (("level", level, LEVELS), ("toolchain", toolchain, TOOLCHAINS)):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
        if not ((build_timeout_s is None or build_timeout_s > 0) and run_s > 0):
            raise ValueError("build_timeout_s and run_s must be above 0")
        from evokernel.backends.ascendc.chips import chip as chip_called

        self.chip, self.level, self.toolchain, self.compiler = chip_called(chip), level, toolchain, compiler
        self.build_timeout_s, self.run_s, self.device = build_timeout_s, run_s, device

    @cached_property
    def cann(self) -> OnCard | Beside | None:
        """What of CANN is used; with the judge only: the child goes by what was built."""
        if self.toolchain == "twin":
            return None
        from evokernel.backends.ascendc.cann.backend import chosen

        return chosen(self.toolchain, self.chip, self.device, self.build_timeout_s, self.compiler)

    @property
    def card(self) -> OnCard | None:
        """CANN, where kernels run on a card."""
        return self.cann if self.cann is not None and self.cann.is_card else None

    @property
    def beside(self) -> Beside | None:
        """CANN, where kernels run on the twin."""
        return None if self.cann is None or self.cann.is_card else self.cann

    @property
    def repeatable(self) -> bool:
        """A card gives other times again."""
        return self.card is None

    @staticmethod
    def recognises(path: Path) -> bool:
        """Whether this is a project of another's form: six parts in one text, or folders of host and kernel."""
        if path.is_dir():
            return (path / "op_kernel").is_dir()
        return path.suffix == ".txt" and path.is_file() and all(part in path.read_text(errors="replace") for part in SIX_PARTS)

    def unavailable_reason(self) -> str | None:
        from evokernel.backends.native.toolchain import missing

        if self.toolchain != "twin":
            from evokernel.backends.ascendc.cann.backend import lacking

            if why := lacking(self.toolchain, self.chip):
                return why
        return missing(self.compiler) if self.card is None else None

    def versions(self) -> dict[str, str]:
        from evokernel.backends.ascendc.build import contents
        from evokernel.backends.native.toolchain import find, version

        if self.card:
            return self.card.versions()
        path = find(self.compiler)
        twin = {"chip": self.chip.name, "toolchain": "twin", "twin": contents()[:12], "level": self.level}
        return twin | ({"compiler": version(path)} if path else {}) | (self.beside.versions() if self.beside else {})

    def optional_tools(self) -> Iterable[OptionalTool]:
        from evokernel.backends.ascendc.build import contents
        from evokernel.backends.ascendc.cann.backend import equipment

        return equipment(contents()[:12])

    def entry_point(self, task: Task) -> str:
        from evokernel.backends.ascendc.entry import described

        return described(task.signature)

    def project(self, task: Task, candidate: Candidate) -> Project:
        """The candidate as a project, whatever form it came in."""
        from evokernel.backends.ascendc.project import read

        return read(candidate.files, task.signature)

    def sizes_for(self, candidate: Candidate) -> tuple[str, ...]:
        """A project of another's form was written for one size."""
        return SIZES if self.file in candidate.files else ("bench",)

    def screen(self, task: Task, candidate: Candidate, workdir: Path) -> Iterable[str]:
        from evokernel.backends.ascendc.screen import findings

        project = self.project(task, candidate)
        return findings(project.files | ({"bind.cpp": project.bind} if project.bind else {}), (*project.hosts, "bind.cpp"))

    def build(self, task: Task, candidate: Candidate, workdir: Path) -> None:
        from evokernel.backends.ascendc.build import build

        project = self.project(task, candidate)
        if self.card:
            self.card.build(task, project, workdir)
            return
        if self.beside and self.toolchain == "cann":
            self.beside.check(project, workdir)
        build(project, workdir, self.compiler, self.build_timeout_s or BUILD_S)
        written = {"op": project.op, "function": project.function, "call": project.call, "mark": secrets.token_hex(8)}
        (workdir / PLAN).write_text(json.dumps(written))
        if self.beside and self.toolchain == "auto":  # a second opinion: the twin's has the better hints
            self.beside.check(project, workdir)

    def access(self, workdir: Path) -> DeviceAccess | None:
        return self.card.access(workdir) if self.card else None

    def preload(self, workdir: Path) -> None:
        """In the child, before it is closed in. Nothing of a card's: a runtime that starts threads could not be closed in any more."""
        from evokernel.backends.ascendc.loader import open_twin

        if (workdir / "libtwin.so").exists():
            open_twin(workdir / "libtwin.so")

    def load(self, workdir: Path) -> Kernel:
        if (workdir / INSTALLED).exists():
            from evokernel.backends.ascendc.cann.call import load

            return load(workdir)
        from evokernel.backends.ascendc.loader import AscendcKernel

        try:
            return AscendcKernel(workdir, "libtwin.so", "operator.so", self.level, self.chip.as_lines(), self.run_s)
        except ValueError as error:
            raise InfraError(str(error)) from error

    def explain_failure(self, candidate: Candidate, workdir: Path, error: CandidateError) -> CandidateError:
        from evokernel.backends.ascendc.diagnostics import sources, told

        return self.card.explain_failure(workdir, error) if self.card else told(workdir, sources(workdir), error)

    def partial_run_note(self, workdir: Path, said: str) -> str:
        from evokernel.backends.ascendc.simulator_report import reports

        if self.card:
            return ""
        found = reports(said, plan(workdir)["mark"])
        return f"{found[-1].ran} of {found[-1].blocks} blocks were run" if found and found[-1].ran < found[-1].blocks else ""

    def sanitizer(self) -> OptionalTool | None:
        if self.card:
            return OptionalTool("sanitizer", False, "nobody watches memory on a card; verify with backend.toolchain=twin, which does")
        return None  # the twin looks for races, accesses out of bounds and memory that was never set, whenever a kernel is run

    def build_sanitized(self, task: Task, candidate: Candidate, workdir: Path) -> dict[str, str]:
        return {}

    def parse_sanitizer_report(self, candidate: Candidate, workdir: Path, report: str) -> CandidateError | None:
        return None

    def estimate_latency(self, task: Task, workdir: Path, said: str) -> TimingResult:
        from evokernel.backends.ascendc.baseline import baseline_us
        from evokernel.backends.ascendc.profile import profile
        from evokernel.backends.ascendc.simulator_report import at_size, reports

        if self.card:
            return self.card.estimate_latency(task, workdir)
        if self.beside and (simulated := self.beside.estimate_latency(task, workdir)):
            return simulated
        tensors = (*task.signature.inputs, *task.signature.params, *task.signature.outputs)
        found = at_size(reports(said, plan(workdir)["mark"]), [tensor.nbytes for tensor in tensors])
        base = baseline_us(task, self.chip)
        return TimingResult(CLOCK, (found.us,), {"torch": (base.us,)} if base.us else {}, profile(task, found, self.chip))

    def profile(self, task: Task, outcome: Outcome) -> Profile | None:
        return None


def plan(workdir: Path) -> dict[str, str]:
    """As `build` left it."""
    found: dict[str, str] = json.loads((workdir / PLAN).read_text())
    return found
