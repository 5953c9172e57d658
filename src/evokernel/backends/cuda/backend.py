"""The `cuda` plug-in. Everything heavy is imported when asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from evokernel.core.errors import CandidateError, UserError
from evokernel.core.protocols import Access, Arguments, Call, Equipment, Kernel, Timed

if TYPE_CHECKING:
    from evokernel.backends.gpu.devices import Device
    from evokernel.core.records import Candidate, Job, Outcome, Profile, Task

DEVICE, PROFILERS = ("auto", "never", "always"), ("ncu", "never")
ARCHITECTURE = "sm_90"
"""What is compiled for where there is no GPU."""
TRIED = ("small", "held_out", "bench")
PROGRAMS = "programs"
NOT_RUN = "not-run.txt"


class CudaBackend:
    """`compiler` "" means $CUDACXX, $CUDA_HOME, else nvcc; `flags` are added to the default ones; `arch` "" is the GPU's own (sm_90).

    `device` says whether kernels are run on a GPU of this machine: "auto" (when there is one), "never" (they are compiled, no more) or
    "always"; `number` is which. `build_timeout_s` is what compiling may take. `profiler` "never" leaves Nsight Compute out.
    """

    drafts: ClassVar[bool] = False
    file = "kernel.cu"
    environment: ClassVar[dict[str, str]] = {}
    traces_build = True
    is_simulated: ClassVar[bool] = False

    def __init__(
        self,
        compiler: str = "",
        flags: str = "",
        arch: str = "",
        device: str = "auto",
        number: int = 0,
        build_timeout_s: float = 120,
        profiler: str = "ncu",
    ) -> None:
        if device not in DEVICE:
            raise ValueError(f"device must be one of {', '.join(DEVICE)}, not {device!r}")
        if arch and not re.fullmatch(r"sm_\d+[af]?", arch):
            raise ValueError(f"arch must be of the form sm_90, not {arch!r}")
        if not build_timeout_s > 0:
            raise ValueError(f"build_timeout_s must be above 0, not {build_timeout_s}")
        self.compiler, self.flags, self.arch, self.wanted, self.number = compiler, flags, arch, device, number
        self.build_timeout_s, self.profiler = build_timeout_s, profiler
        if profiler not in PROFILERS:
            raise ValueError(f"profiler must be one of {', '.join(PROFILERS)}, not {profiler!r}")

    @cached_property
    def device(self) -> Device:
        """The GPU, asked when first needed."""
        from evokernel.backends.gpu.devices import Device, device

        return Device(why_not="backend.device=never") if self.wanted == "never" else device(self.number)

    @property
    def repeatable(self) -> bool:
        """A GPU gives other times again."""
        return not self.device.name

    @property
    def architecture(self) -> str:
        return self.arch or self.device.architecture or ARCHITECTURE

    def missing(self) -> str | None:
        from evokernel.backends.cuda.build import MISSING, find
        from evokernel.backends.native import toolchain

        if self.wanted == "always" and not self.device.name:
            return f"{self.device.why_not}: leave out backend.device=always to compile kernels without running them"
        return toolchain.missing("") if find(self.compiler) else MISSING  # nvcc compiles host code with another's compiler

    def unjudged(self) -> str | None:
        return None if self.device.name else f"{self.device.why_not}: kernels are compiled and recorded here, and not run"

    def versions(self) -> dict[str, str]:
        from evokernel.backends.cuda.build import find, version

        path = find(self.compiler)
        found = {"architecture": self.architecture} | ({"compiler": version(path)} if path else {})
        return found | ({"gpu": self.device.name, "driver": self.device.driver} if self.device.name else {})

    def equipment(self) -> Iterable[Equipment]:
        from evokernel.backends.gpu.tools import equipment

        return equipment(self.device, "kernels are compiled and recorded, not run, so that none can be correct")

    def entry(self, task: Task) -> str:
        from evokernel.backends.cuda.abi import described

        return described(task.signature)

    def warm(self) -> None:
        from evokernel.backends.cuda import record  # noqa: F401
        from evokernel.backends.gpu import replay  # noqa: F401

    def trace(self, candidate: Path, calls: Mapping[str, Call], into: Path) -> None:
        from evokernel.backends.cuda.record import record

        record(candidate, calls, into)

    def inspect(self, programs: Path, calls: Mapping[str, Call], into: Path) -> None:
        from evokernel.backends.gpu.program import FILE, read, refuse_impossible

        for program in read(programs / FILE).values():
            refuse_impossible(program)

    def lower(self, programs: Path, calls: Mapping[str, Call], into: Path) -> None:
        pass  # compiled before they were recorded

    def explain(self, error: Exception) -> CandidateError:
        return CandidateError("trace_error", f"the launch function failed: {type(error).__name__}: {error}")

    def screen(self, task: Task, candidate: Candidate, workdir: Path) -> Iterable[str]:
        from evokernel.backends.cuda.screen import findings

        return findings(candidate.files)

    def build(self, task: Task, candidate: Candidate, workdir: Path) -> None:
        from evokernel.backends.cuda.build import MISSING, build, find

        if (path := find(self.compiler)) is None:
            raise UserError(MISSING)
        if not self.device.name:
            (workdir / NOT_RUN).write_text(self.device.why_not)
        build(path, self.flags, self.architecture, self.device.facts, task, candidate, workdir, self.build_timeout_s)

    def load(self, workdir: Path) -> Kernel:
        from evokernel.backends.gpu.replay import ReplayedKernel

        if (workdir / NOT_RUN).exists():  # the judge's word: in here, no device can be looked for
            why = (workdir / NOT_RUN).read_text()
            raise CandidateError("not_run", f"compiled and recorded, but not run ({why}): whether it is right is not known")
        return ReplayedKernel(workdir / PROGRAMS, self.number)

    def access(self, workdir: Path) -> Access | None:
        from evokernel.backends.gpu.devices import access

        return access() if (workdir / PROGRAMS).exists() and self.device.name else None

    def tried(self, candidate: Candidate) -> tuple[str, ...]:
        return TRIED

    def told(self, candidate: Candidate, workdir: Path, error: CandidateError) -> CandidateError:
        return error

    def opened(self, workdir: Path) -> None:
        pass  # the driver starts threads, and a process with threads could not be closed in

    def sampled(self, workdir: Path, said: str) -> str:
        return ""

    def sanitizer(self) -> Equipment | None:
        from evokernel.backends.gpu.tools import sanitizer

        return sanitizer(self.device)

    def watched(self, candidate: Candidate, workdir: Path, folder: Path, calls: Sequence[Arguments]) -> None:
        from evokernel.backends.gpu.watched import lay_out, sanitize

        tool = self.sanitizer()
        assert tool, "only where there is a GPU"
        lay_out(folder, workdir / PROGRAMS, calls, self.number)
        sanitize(tool.detail, folder, candidate.files)

    def sanitized(self, task: Task, candidate: Candidate, workdir: Path) -> dict[str, str]:
        return {}

    def diagnosed(self, candidate: Candidate, workdir: Path, report: str) -> CandidateError | None:
        return None

    def timed(self, task: Task, workdir: Path, said: str) -> Timed:
        from evokernel.backends.gpu.timed import timed

        return timed(task, workdir / PROGRAMS, None, self.number, self.device)

    def measured(self, job: Job, workdir: Path, beside: Path | None) -> Timed:
        from evokernel.backends.gpu.timed import timed

        best = beside / PROGRAMS if beside else None
        return timed(job.task, workdir / PROGRAMS, best, self.number, self.device, job.baselines, job.timing_s, self.profiler)

    def profile(self, task: Task, outcome: Outcome) -> Profile | None:
        return None
