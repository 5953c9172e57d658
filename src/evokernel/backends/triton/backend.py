"""The `triton` plug-in. Methods import heavy modules when they need them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from evokernel.backends.gpu.backend import PROGRAMS, TRIED, GpuBackend
from evokernel.core.backend import CallShape, Capabilities, DeviceAccess, Kernel, OptionalTool, TimingResult
from evokernel.core.errors import CandidateError, ToolUnavailable

if TYPE_CHECKING:
    from evokernel.core.records import Candidate, Task

INTERPRETED = "interpreted.txt"
INTERPRETER_LIMITS = (
    "Triton's interpreter checked values, bounds and races between programs at the small sizes, one program after the other; not the timed "
    "size, nor whether programs that wait for each other end"
)
WITHOUT_GPU = (
    "Triton's interpreter decides here whether kernels are correct, at the small and the hidden size; kernels are not timed, so none is "
    "faster than another. To time them, run on a machine with a GPU (`evokernel bundle` packs the run)"
)


class TritonBackend(GpuBackend):
    """Records Triton kernels, and runs them on a GPU or checks them with Triton's interpreter.

    `arch` "" means the GPU's own architecture, or sm_90 without a GPU. `device`: "auto" uses a GPU if there is one, "never" checks values
    with the interpreter and times nothing, "always" requires a GPU; `number` selects it. `build_timeout_s` limits compilation. `profiler`
    "never" disables Nsight Compute.
    """

    file_name = "kernel.py"
    environment: ClassVar[Mapping[str, str]] = {"TRITON_DEFAULT_FP_FUSION": "1"}

    def __init__(self, arch: str = "", device: str = "auto", number: int = 0, build_timeout_s: float = 120, profiler: str = "ncu") -> None:
        super().__init__(arch, device, number, build_timeout_s, profiler)

    @property
    def capabilities(self) -> Capabilities:
        """Without a GPU, kernels run in Triton's interpreter."""
        return self.device_capabilities("source", WITHOUT_GPU, can_check_values=True)

    def unavailable_reason(self) -> str | None:
        if importlib.util.find_spec("triton") is None:
            return "Triton is not installed; run pip install 'evokernel[triton]'"
        if self.device_mode == "always" and not self.device.name:
            return f"{self.device.unavailable_reason}; remove backend.device=always to use the interpreter"
        return None

    def versions(self) -> dict[str, str]:
        version_table = self.device_versions()
        with suppress(PackageNotFoundError):
            version_table["triton"] = version("triton")
        return version_table

    def optional_tools(self) -> Iterable[OptionalTool]:
        from evokernel.backends.gpu.tools import list_tools

        return list_tools(
            self.device, "kernels are compiled to machine code, Triton's interpreter checks values, bounds and races; nothing is timed"
        )

    def entry_point(self, task: Task) -> str:
        from evokernel.backends.triton.entry import annotated_launch_function

        return annotated_launch_function(task.signature)

    def load_libraries(self) -> None:
        from evokernel.backends.gpu import replay  # noqa: F401
        from evokernel.backends.triton.interpreting_copy import load_interpreting_copy

        if not self.device.name:
            load_interpreting_copy()
        from evokernel.backends.triton.record import load_triton

        load_triton(int(self.architecture.removeprefix("sm_").rstrip("af")))

    def trace(self, candidate: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        from evokernel.backends.triton.record import record_launches

        record_launches(candidate, calls, into)

    def explain_exception(self, error: Exception) -> CandidateError:
        from evokernel.backends.triton.errors import explain_error

        return explain_error(error)

    def screen(self, task: Task, candidate: Candidate, workdir: Path) -> Iterable[str]:
        from evokernel.backends.triton.screen import find_violations

        return find_violations(candidate.files)

    def build(self, task: Task, candidate: Candidate, workdir: Path) -> None:
        from evokernel.backends.triton.build import build_programs

        choices = build_programs(workdir / PROGRAMS, self.build_timeout_s)
        if len(choices) > 1 and self.device.name:
            from evokernel.backends.gpu.latency import tune_configurations

            tune_configurations(task, workdir / PROGRAMS, choices, self.number)

    def load(self, workdir: Path) -> Kernel:
        if self.has_candidate_code(workdir):
            from evokernel.backends.triton.interpreting_copy import use_interpreting_copy

            use_interpreting_copy()
            from evokernel.backends.triton.interpret import InterpretedKernel

            return InterpretedKernel(workdir / "candidate", workdir / PROGRAMS)
        from evokernel.backends.gpu.replay import ReplayedKernel

        return ReplayedKernel(workdir / PROGRAMS, self.number)

    def has_candidate_code(self, workdir: Path) -> bool:
        """Whether the verifier chose the interpreter; the candidate process cannot look for a device itself."""
        return (workdir / INTERPRETED).exists()

    def device_access(self, workdir: Path) -> DeviceAccess | None:
        if (workdir / PROGRAMS).exists() and not self.device.name:
            (workdir / INTERPRETED).write_text(self.device.unavailable_reason)
        return super().device_access(workdir)

    def sizes_for(self, candidate: Candidate) -> tuple[str, ...]:
        from evokernel.backends.triton.screen import is_model

        if self.device.name and is_model(candidate.files.get(self.file_name, "")):
            return ("bench",)  # a KernelBench solution is written for one size
        return TRIED if self.device.name else TRIED[:2]

    def explain_failure(self, candidate: Candidate, workdir: Path, error: CandidateError) -> CandidateError:
        if error.reason == "crash" and self.has_candidate_code(workdir):
            return CandidateError(
                "out_of_bounds",
                "the interpreter crashed during a load or store: a pointer belongs to no tensor; mask the access or fix its offset",
            )
        return error

    def estimate_latency(self, task: Task, workdir: Path, stderr: str) -> TimingResult:
        raise ToolUnavailable(f"times ({self.device.unavailable_reason}); {INTERPRETER_LIMITS}")
