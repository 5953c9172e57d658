"""The `triton` plug-in. Everything heavy is imported when asked for."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from evokernel.core.errors import CandidateError, CannotRun
from evokernel.core.protocols import Access, Arguments, Call, Equipment, Kernel, Timed

if TYPE_CHECKING:
    from evokernel.backends.gpu.devices import Device
    from evokernel.core.records import Candidate, Job, Outcome, Profile, Task

DEVICE, PROFILERS = ("auto", "never", "always"), ("ncu", "never")
ARCHITECTURE = "sm_90"
TRIED = ("small", "held_out", "bench")
PROGRAMS, INTERPRETED = "programs", "interpreted.txt"


class TritonBackend:
    """`arch` "" is the GPU's own, such as sm_90, which is also what kernels are compiled for without one.

    `device` says whether kernels are run on a GPU of this machine: "auto" (when there is one), "never" (Triton's interpreter checks their
    values, and nothing is timed) or "always"; `number` is which. `build_timeout_s` is what compiling may take. `profiler` "never" leaves
    Nsight Compute out, where it is there.
    """

    drafts: ClassVar[bool] = True
    file = "kernel.py"
    environment: ClassVar[dict[str, str]] = {"TRITON_DEFAULT_FP_FUSION": "1"}

    def __init__(self, arch: str = "", device: str = "auto", number: int = 0, build_timeout_s: float = 120, profiler: str = "ncu") -> None:
        if device not in DEVICE:
            raise ValueError(f"device must be one of {', '.join(DEVICE)}, not {device!r}")
        if arch and not re.fullmatch(r"sm_\d+", arch):
            raise ValueError(f"arch must be of the form sm_90, not {arch!r}")
        if not build_timeout_s > 0:
            raise ValueError(f"build_timeout_s must be above 0, not {build_timeout_s}")
        self.arch, self.wanted, self.number, self.build_timeout_s = arch, device, number, build_timeout_s
        self.profiler = profiler
        if profiler not in PROFILERS:
            raise ValueError(f"profiler must be one of {', '.join(PROFILERS)}, not {profiler!r}")

    @cached_property
    def device(self) -> Device:
        """The GPU, asked when first needed."""
        from evokernel.backends.gpu.devices import Device, device

        return Device(why_not="backend.device=never") if self.wanted == "never" else device(self.number)

    @property
    def is_simulated(self) -> bool:
        """Without a GPU, kernels are interpreted."""
        return not self.device.name

    @property
    def repeatable(self) -> bool:
        return not self.device.name

    @property
    def architecture(self) -> str:
        return self.arch or self.device.architecture or ARCHITECTURE

    def missing(self) -> str | None:
        if importlib.util.find_spec("triton") is None:
            return "no Triton: pip install 'evokernel[triton]'"
        if self.wanted == "always" and not self.device.name:
            return f"{self.device.why_not}: leave out backend.device=always to have kernels interpreted"
        return None

    def unjudged(self) -> str | None:
        return None if self.device.name else f"{self.device.why_not}: kernels are checked by an interpreter here, and not timed"

    def versions(self) -> dict[str, str]:
        found = {"architecture": self.architecture}
        with suppress(PackageNotFoundError):
            found["triton"] = version("triton")
        return found | ({"gpu": self.device.name, "driver": self.device.driver} if self.device.name else {})

    def equipment(self) -> Iterable[Equipment]:
        from evokernel.backends.gpu.tools import equipment

        return equipment(self.device, "kernels are compiled to machine code, and checked by Triton's interpreter; nothing is timed")

    def entry(self, task: Task) -> str:
        from evokernel.backends.triton.entry import described

        return described(task.signature)

    def warm(self) -> None:
        from evokernel.backends.gpu import replay  # noqa: F401
        from evokernel.backends.triton.record import warm

        warm(int(self.architecture.removeprefix("sm_")))

    def trace(self, candidate: Path, calls: Mapping[str, Call], into: Path) -> None:
        from evokernel.backends.triton.record import record

        record(candidate, calls, into)

    def inspect(self, programs: Path, calls: Mapping[str, Call], into: Path) -> None:
        pass  # the text is looked at; what was recorded, when it is built

    def lower(self, programs: Path, calls: Mapping[str, Call], into: Path) -> None:
        pass

    def explain(self, error: Exception) -> CandidateError:
        from evokernel.backends.triton.errors import explained

        return explained(error)

    def screen(self, task: Task, candidate: Candidate, workdir: Path) -> Iterable[str]:
        from evokernel.backends.triton.screen import findings

        return findings(candidate.files)

    def build(self, task: Task, candidate: Candidate, workdir: Path) -> None:
        from evokernel.backends.triton.build import build

        choices = build(workdir / PROGRAMS, self.build_timeout_s)
        if len(choices) > 1 and self.device.name:
            from evokernel.backends.gpu.timed import tune

            tune(task, workdir / PROGRAMS, choices, self.number)

    def load(self, workdir: Path) -> Kernel:
        if self.is_interpreted(workdir):
            from evokernel.backends.triton.interpret import InterpretedKernel

            return InterpretedKernel(workdir / "candidate")
        from evokernel.backends.gpu.replay import ReplayedKernel

        return ReplayedKernel(workdir / PROGRAMS, self.number)

    def is_interpreted(self, workdir: Path) -> bool:
        """The judge's word: in the child, no device can be looked for."""
        return (workdir / INTERPRETED).exists()

    def access(self, workdir: Path) -> Access | None:
        from evokernel.backends.gpu.devices import access

        if not (workdir / PROGRAMS).exists():
            return None
        if self.device.name:
            return access()
        (workdir / INTERPRETED).write_text(self.device.why_not)
        return None

    def tried(self, candidate: Candidate) -> tuple[str, ...]:
        return TRIED if self.device.name else TRIED[:2]

    def told(self, candidate: Candidate, workdir: Path, error: CandidateError) -> CandidateError:
        if error.reason == "crash" and self.is_interpreted(workdir):
            return CandidateError("out_of_bounds", "the interpreter died while it read or wrote: an address is that of no tensor")
        return error

    def opened(self, workdir: Path) -> None:
        pass

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
        raise CannotRun(f"times ({self.device.why_not}): values were checked by Triton's interpreter")

    def measured(self, job: Job, workdir: Path, beside: Path | None) -> Timed:
        from evokernel.backends.gpu.timed import timed

        best = beside / PROGRAMS if beside else None
        return timed(job.task, workdir / PROGRAMS, best, self.number, self.device, job.baselines, job.timing_s, self.profiler)

    def profile(self, task: Task, outcome: Outcome) -> Profile | None:
        return None
