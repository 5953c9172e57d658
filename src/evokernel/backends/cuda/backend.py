"""The `cuda` plug-in. Everything heavy is imported when asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from evokernel.backends.cuda.model import CLASS, is_model
from evokernel.backends.cuda.model import FILE as MODEL
from evokernel.backends.gpu.backend import PROGRAMS, GpuBackend
from evokernel.core.errors import CandidateError, UserError
from evokernel.core.protocols import CallShape, Kernel, OptionalTool

if TYPE_CHECKING:
    from evokernel.core.records import Candidate, Task

NOT_RUN = "not-run.txt"
HEAD_BYTES = 1 << 20


class CudaBackend(GpuBackend):
    """`compiler` "" means $CUDACXX, $CUDA_HOME, else nvcc; `flags` are added to the default ones; `arch` "" is the GPU's own (sm_90).

    `device` says whether kernels are run on a GPU of this machine: "auto" (when there is one), "never" (they are compiled, no more) or
    "always"; `number` is which. `build_timeout_s` is what compiling may take. `profiler` "never" leaves Nsight Compute out.
    """

    can_check_values: ClassVar[bool] = False
    file = "kernel.cu"
    takes: ClassVar[tuple[str, ...]] = (".py",)
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
        super().__init__(arch, device, number, build_timeout_s, profiler)
        self.compiler, self.flags = compiler, flags

    @staticmethod
    def recognises(path: Path) -> bool:
        """Whether a file is a model as KernelBench has them, with kernels of its own."""
        if path.suffix != ".py" or not path.is_file():
            return False
        with path.open(errors="replace") as file:
            text = file.read(HEAD_BYTES)
        return f"class {CLASS}" in text and "load_inline" in text

    def sizes_for(self, candidate: Candidate) -> tuple[str, ...]:
        """A model is written for the size its problem has, and held to no other."""
        return ("bench",) if is_model(candidate) else super().sizes_for(candidate)

    def unavailable_reason(self) -> str | None:
        from evokernel.backends.cuda.build import MISSING, find
        from evokernel.backends.native import toolchain

        if self.wanted == "always" and not self.device.name:
            return f"{self.device.why_not}: leave out backend.device=always to compile kernels without running them"
        return toolchain.missing("") if find(self.compiler) else MISSING  # nvcc compiles host code with another's compiler

    def limitations(self) -> str | None:
        return None if self.device.name else f"{self.device.why_not}: kernels are compiled and recorded here, and not run"

    def versions(self) -> dict[str, str]:
        from evokernel.backends.cuda.build import find, version

        path = find(self.compiler)
        return self.device_versions() | ({"compiler": version(path)} if path else {})

    def optional_tools(self) -> Iterable[OptionalTool]:
        from evokernel.backends.gpu.tools import equipment

        return equipment(self.device, "kernels are compiled and recorded, not run, so that none can be correct")

    def entry_point(self, task: Task) -> str:
        from evokernel.backends.cuda.abi import described

        return described(task.signature)

    def load_libraries(self) -> None:
        from evokernel.backends.cuda import record  # noqa: F401
        from evokernel.backends.gpu import replay  # noqa: F401

    def trace(self, candidate: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        if (candidate / MODEL).exists():
            from evokernel.backends.cuda.model.record import record as record_model

            return record_model(candidate, calls, into)
        from evokernel.backends.cuda.record import record

        record(candidate, calls, into)

    def inspect(self, programs: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        from evokernel.backends.gpu.program import FILE, read, refuse_impossible

        for program in read(programs / FILE).values():
            refuse_impossible(program)

    def lower(self, programs: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        pass  # compiled before they were recorded

    def explain(self, error: Exception) -> CandidateError:
        return CandidateError("trace_error", f"the launch function failed: {type(error).__name__}: {error}")

    def screen(self, task: Task, candidate: Candidate, workdir: Path) -> Iterable[str]:
        from evokernel.backends.cuda.screen import findings

        return findings(candidate.files)

    def build(self, task: Task, candidate: Candidate, workdir: Path) -> None:
        from evokernel.backends.cuda.build import MISSING, build, find
        from evokernel.backends.cuda.model.build import build as build_model

        if (path := find(self.compiler)) is None:
            raise UserError(MISSING)
        if not self.device.name:
            (workdir / NOT_RUN).write_text(self.device.why_not)
        if is_model(candidate):
            return build_model(path, self.architecture, self.device.facts, task, candidate, workdir, self.build_timeout_s)
        build(path, self.flags, self.architecture, self.device.facts, task, candidate, workdir, self.build_timeout_s)

    def load(self, workdir: Path) -> Kernel:
        from evokernel.backends.gpu.replay import ReplayedKernel

        if (workdir / NOT_RUN).exists():  # the judge's word: in here, no device can be looked for
            why = (workdir / NOT_RUN).read_text()
            raise CandidateError("not_run", f"compiled and recorded, but not run ({why}): whether it is right is not known")
        return ReplayedKernel(workdir / PROGRAMS, self.number)
