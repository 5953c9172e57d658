"""The `cuda` plug-in. Methods import heavy modules when they need them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.backends.cuda.model import CLASS, is_model
from evokernel.backends.cuda.model import FILE as MODEL
from evokernel.backends.gpu.backend import PROGRAMS, GpuBackend
from evokernel.core.backend import CallShape, Capabilities, Kernel, OptionalTool
from evokernel.core.errors import CandidateError, UserError

if TYPE_CHECKING:
    from evokernel.core.records import Candidate, Task

NOT_RUN_FILE = "not-run.txt"
HEAD_BYTES = 1 << 20


class CudaBackend(GpuBackend):
    """Compiles CUDA kernels, records their launches, and runs the recording on a GPU.

    `compiler` "" means $CUDACXX, $CUDA_HOME, else nvcc. `flags` are added to the default flags. `arch` "" is the GPU's own.
    `device`: "auto" uses a GPU if there is one, "never" only compiles, "always" requires a GPU; `number` selects it.
    `build_timeout_s` limits compilation. `profiler` "never" disables Nsight Compute.
    """

    file_name = "kernel.cu"
    other_suffixes = (".py",)

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

    @property
    def capabilities(self) -> Capabilities:
        return self.device_capabilities("build", "kernels are compiled and recorded here, but not run", can_check_values=False)

    @classmethod
    def recognizes(cls, path: Path) -> bool:
        """Whether a file is a KernelBench solution with inline CUDA kernels."""
        if path.suffix != ".py" or not path.is_file():
            return False
        with path.open(errors="replace") as file:
            text = file.read(HEAD_BYTES)
        return f"class {CLASS}" in text and "load_inline" in text

    def sizes_for(self, candidate: Candidate) -> tuple[str, ...]:
        """Returns only `bench` for a KernelBench solution, because it is written for that size."""
        return ("bench",) if is_model(candidate) else super().sizes_for(candidate)

    def unavailable_reason(self) -> str | None:
        from evokernel.backends.cuda.build import MISSING, find_nvcc
        from evokernel.backends.native import toolchain

        if self.device_mode == "always" and not self.device.name:
            return f"{self.device.unavailable_reason}; remove backend.device=always to compile kernels without running them"
        return toolchain.missing_compiler_message("") if find_nvcc(self.compiler) else MISSING  # nvcc needs a host compiler

    def versions(self) -> dict[str, str]:
        from evokernel.backends.cuda.build import find_nvcc, nvcc_version

        path = find_nvcc(self.compiler)
        return self.device_versions() | ({"compiler": nvcc_version(path)} if path else {})

    def optional_tools(self) -> Iterable[OptionalTool]:
        from evokernel.backends.gpu.tools import list_tools

        return list_tools(self.device, "kernels are compiled and recorded but not run, so their values cannot be checked")

    def entry_point(self, task: Task) -> str:
        from evokernel.backends.cuda.abi import annotated_prototype

        return annotated_prototype(task.signature)

    def load_libraries(self) -> None:
        from evokernel.backends.cuda import record  # noqa: F401
        from evokernel.backends.gpu import replay  # noqa: F401

    def trace(self, candidate: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        if (candidate / MODEL).exists():
            from evokernel.backends.cuda.model.record import record_model

            return record_model(candidate, calls, into)
        from evokernel.backends.cuda.record import record_launches

        record_launches(candidate, calls, into)

    def inspect(self, programs: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        from evokernel.backends.gpu.program import FILE, read_programs, validate_program

        for program in read_programs(programs / FILE).values():
            validate_program(program)

    def explain_exception(self, error: Exception) -> CandidateError:
        return CandidateError("trace_error", f"the launch function failed: {type(error).__name__}: {error}")

    def screen(self, task: Task, candidate: Candidate, workdir: Path) -> Iterable[str]:
        from evokernel.backends.cuda.screen import find_violations

        return find_violations(candidate.files)

    def build(self, task: Task, candidate: Candidate, workdir: Path) -> None:
        from evokernel.backends.cuda.build import MISSING, build_kernel, find_nvcc
        from evokernel.backends.cuda.model.build import build_model

        if (path := find_nvcc(self.compiler)) is None:
            raise UserError(MISSING)
        if not self.device.name:
            (workdir / NOT_RUN_FILE).write_text(self.device.unavailable_reason)
        if is_model(candidate):
            return build_model(path, self.architecture, self.device.attributes, task, candidate, workdir, self.build_timeout_s)
        build_kernel(path, self.flags, self.architecture, self.device.attributes, task, candidate, workdir, self.build_timeout_s)

    def load(self, workdir: Path) -> Kernel:
        from evokernel.backends.gpu.replay import ReplayedKernel

        if (workdir / NOT_RUN_FILE).exists():  # written by the verifier; the candidate process cannot look for a device
            reason = (workdir / NOT_RUN_FILE).read_text()
            raise CandidateError("not_run", f"the kernel was compiled and recorded, but not run ({reason}), so its correctness is unknown")
        return ReplayedKernel(workdir / PROGRAMS, self.number)
