"""The `triton` plug-in. Everything heavy is imported when asked for."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from evokernel.backends.gpu.backend import PROGRAMS, TRIED, GpuBackend
from evokernel.core.errors import CandidateError, ToolUnavailable
from evokernel.core.protocols import CallShape, DeviceAccess, Kernel, OptionalTool, TimingResult

if TYPE_CHECKING:
    from evokernel.core.records import Candidate, Task

INTERPRETED = "interpreted.txt"


class TritonBackend(GpuBackend):
    """`arch` "" is the GPU's own, such as sm_90, which is also what kernels are compiled for without one.

    `device` says whether kernels are run on a GPU of this machine: "auto" (when there is one), "never" (Triton's interpreter checks their
    values, and nothing is timed) or "always"; `number` is which. `build_timeout_s` is what compiling may take. `profiler` "never" leaves
    Nsight Compute out, where it is there.
    """

    can_check_values: ClassVar[bool] = True
    file = "kernel.py"
    environment: ClassVar[dict[str, str]] = {"TRITON_DEFAULT_FP_FUSION": "1"}

    def __init__(self, arch: str = "", device: str = "auto", number: int = 0, build_timeout_s: float = 120, profiler: str = "ncu") -> None:
        super().__init__(arch, device, number, build_timeout_s, profiler)

    @property
    def is_simulated(self) -> bool:
        """Without a GPU, kernels are interpreted."""
        return not self.device.name

    def unavailable_reason(self) -> str | None:
        if importlib.util.find_spec("triton") is None:
            return "no Triton: pip install 'evokernel[triton]'"
        if self.wanted == "always" and not self.device.name:
            return f"{self.device.why_not}: leave out backend.device=always to have kernels interpreted"
        return None

    def limitations(self) -> str | None:
        return None if self.device.name else f"{self.device.why_not}: kernels are checked by an interpreter here, and not timed"

    def versions(self) -> dict[str, str]:
        found = self.device_versions()
        with suppress(PackageNotFoundError):
            found["triton"] = version("triton")
        return found

    def optional_tools(self) -> Iterable[OptionalTool]:
        from evokernel.backends.gpu.tools import equipment

        return equipment(self.device, "kernels are compiled to machine code, and checked by Triton's interpreter; nothing is timed")

    def entry_point(self, task: Task) -> str:
        from evokernel.backends.triton.entry import described

        return described(task.signature)

    def load_libraries(self) -> None:
        from evokernel.backends.gpu import replay  # noqa: F401
        from evokernel.backends.triton.record import warm

        warm(int(self.architecture.removeprefix("sm_").rstrip("af")))

    def trace(self, candidate: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        from evokernel.backends.triton.record import record

        record(candidate, calls, into)

    def inspect(self, programs: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        pass  # the text is looked at; what was recorded, when it is built

    def lower(self, programs: Path, calls: Mapping[str, CallShape], into: Path) -> None:
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
            from evokernel.backends.gpu.latency import tune

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

    def access(self, workdir: Path) -> DeviceAccess | None:
        if (workdir / PROGRAMS).exists() and not self.device.name:
            (workdir / INTERPRETED).write_text(self.device.why_not)
        return super().access(workdir)

    def sizes_for(self, candidate: Candidate) -> tuple[str, ...]:
        return TRIED if self.device.name else TRIED[:2]

    def explain_failure(self, candidate: Candidate, workdir: Path, error: CandidateError) -> CandidateError:
        if error.reason == "crash" and self.is_interpreted(workdir):
            return CandidateError("out_of_bounds", "the interpreter died while it read or wrote: an address is that of no tensor")
        return error

    def estimate_latency(self, task: Task, workdir: Path, said: str) -> TimingResult:
        raise ToolUnavailable(f"times ({self.device.why_not}): values were checked by Triton's interpreter")
