"""The `ascendc` plug-in. Imports are local to the methods, because the candidate process loads this file for every candidate."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evokernel.core.backend import Backend, Capabilities, DeviceAccess, Kernel, OptionalTool, TimingResult
from evokernel.core.errors import CandidateError, InfraError
from evokernel.core.verification_time import VerificationTime

if TYPE_CHECKING:
    from evokernel.backends.ascendc.cann.backend import CompileCheckMode, NpuMode
    from evokernel.backends.ascendc.project import Project
    from evokernel.core.records import Candidate, Task, TimedSize

CLOCK = "estimate (simulator)"
LEVELS = ("strict", "hardware", "fast")
TOOLCHAINS = ("auto", "simulator", "cann")
SIZES = ("small", "held_out", "laptop", "bench")
SIX_PARTS = ("kernel_src", "host_tiling_src")


BUILD_TIMEOUT_S = 120.0
VERIFICATION_TIME = VerificationTime(base_s=10.8, exponent=0.08, family_factor=1.20, convolution_factor=1.63, spread=2.2)
PLAN_FILE, CANN_FILE = "plan.json", "cann.json"
"""Files in a build folder: the call and the report mark of a simulator build; the record of a CANN build."""


class AscendcBackend(Backend):
    """Builds, runs and times Ascend C operators.

    `chip` is the chip whose latency is estimated: 910B1, 910B2, 910B3 or 910B4.
    `level` selects the effect of a violated hardware rule: "strict" fails the kernel, "hardware" reproduces the behaviour of the chip and
    notes the violation, "fast" does not check. `toolchain` is "simulator" (on any machine), "cann" (CANN's tools) or "auto" (CANN if there
    is an NPU). `run_s` is the time limit of one launch on the simulator; after it only some of the blocks run. `build_timeout_s` is the
    time limit of compilation, by default 120 s for the simulator and 600 s for CANN. `compiler` is the C++ compiler ("" for $CXX, else
    g++). `device` is the number of the NPU.
    """

    file_name = "kernel.asc"
    timed_size: TimedSize = "full"
    takes_complex = True
    other_suffixes = (".txt", ".cpp", ".h")
    part_names = ("tiling.h", "op_host.cpp", "op_kernel.cpp")

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
        for name, value, choices in (("level", level, LEVELS), ("toolchain", toolchain, TOOLCHAINS)):
            if value not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
        if not ((build_timeout_s is None or build_timeout_s > 0) and run_s > 0):
            raise ValueError("build_timeout_s and run_s must be above 0")
        from evokernel.backends.ascendc.chips import find_chip

        self.chip, self.level, self.toolchain, self.compiler = find_chip(chip), level, toolchain, compiler
        self.build_timeout_s, self.run_s, self.device = build_timeout_s, run_s, device

    @cached_property
    def cann_mode(self) -> NpuMode | CompileCheckMode | None:
        """How CANN is used, if at all. Only the verifier reads this: the candidate process follows the files in the build folder."""
        if self.toolchain == "simulator":
            return None
        from evokernel.backends.ascendc.cann.backend import select_mode

        return select_mode(self.toolchain, self.chip, self.device, self.build_timeout_s, self.compiler)

    @property
    def npu_mode(self) -> NpuMode | None:
        """The mode in which kernels run on an NPU; None without one."""
        return self.cann_mode if self.cann_mode is not None and self.cann_mode.is_npu else None

    @property
    def compile_check_mode(self) -> CompileCheckMode | None:
        """The mode in which CANN only compiles and kernels run on the simulator; None otherwise."""
        return None if self.cann_mode is None or self.cann_mode.is_npu else self.cann_mode

    @property
    def capabilities(self) -> Capabilities:
        """Every run on the simulator checks for races, accesses out of bounds and uninitialized memory; latencies on an NPU vary."""
        has_npu = self.npu_mode is not None
        return Capabilities(
            timing="estimate",
            is_simulated=True,
            sanitizer="no" if has_npu else "every_run",
            is_repeatable=not has_npu,
            can_run_parts=not has_npu,
            verification_time=None if has_npu else VERIFICATION_TIME,
        )

    @classmethod
    def recognizes(cls, path: Path) -> bool:
        """Whether the path is a project in another format: MultiKernelBench's six parts in one text, or folders of host and kernel code."""
        if path.is_dir():
            return (path / "op_kernel").is_dir()
        return path.suffix == ".txt" and path.is_file() and all(part in path.read_text(errors="replace") for part in SIX_PARTS)

    def unavailable_reason(self) -> str | None:
        from evokernel.backends.native.toolchain import missing_compiler_message

        if self.toolchain != "simulator":
            from evokernel.backends.ascendc.cann.backend import unavailable_reason

            if why := unavailable_reason(self.toolchain, self.chip):
                return why
        return missing_compiler_message(self.compiler) if self.npu_mode is None else None

    def versions(self) -> dict[str, str]:
        from evokernel.backends.ascendc.build import simulator_digest
        from evokernel.backends.native.toolchain import compiler_version, find_compiler

        if self.npu_mode:
            return self.npu_mode.versions()
        path = find_compiler(self.compiler)
        simulator = {"chip": self.chip.name, "toolchain": "simulator", "simulator": simulator_digest()[:12], "level": self.level}
        return (
            simulator
            | ({"compiler": compiler_version(path)} if path else {})
            | (self.compile_check_mode.versions() if self.compile_check_mode else {})
        )

    def optional_tools(self) -> Iterable[OptionalTool]:
        from evokernel.backends.ascendc.build import simulator_digest
        from evokernel.backends.ascendc.cann.backend import list_optional_tools

        return list_optional_tools(simulator_digest()[:12])

    def entry_point(self, task: Task) -> str:
        from evokernel.backends.ascendc.entry import describe_entry_point

        return describe_entry_point(task.signature)

    def parse_project(self, task: Task, candidate: Candidate) -> Project:
        """Parse the files of a candidate, in any supported format."""
        from evokernel.backends.ascendc.project_parser import parse_project

        return parse_project(candidate.files, task.signature)

    def sizes_for(self, candidate: Candidate) -> tuple[str, ...]:
        """A project in another format is written for one size only."""
        return SIZES if self.file_name in candidate.files else ("bench",)

    def screen(self, task: Task, candidate: Candidate, workdir: Path) -> Iterable[str]:
        from evokernel.backends.ascendc.screen import find_violations

        project = self.parse_project(task, candidate)
        return find_violations(
            project.files | ({"bind.cpp": project.bind_source} if project.bind_source else {}), (*project.host_files, "bind.cpp")
        )

    def build(self, task: Task, candidate: Candidate, workdir: Path) -> None:
        from evokernel.backends.ascendc.build import build

        project = self.parse_project(task, candidate)
        if self.npu_mode:
            self.npu_mode.build(task, project, workdir)
            return
        if self.compile_check_mode and self.toolchain == "cann":
            self.compile_check_mode.check_compiles(project, workdir)
        build(project, workdir, self.compiler, self.build_timeout_s or BUILD_TIMEOUT_S)
        plan: dict[str, Any] = {"op": project.op, "function": project.bound_function, "call": project.call_arguments}
        plan["mark"] = secrets.token_hex(8)
        plan["first_lines"] = find_first_lines(candidate.files.get(self.file_name, ""), project.files)
        (workdir / PLAN_FILE).write_text(json.dumps(plan))
        if (
            self.compile_check_mode and self.toolchain == "auto"
        ):  # after the simulator's build, because its error messages have better hints
            self.compile_check_mode.check_compiles(project, workdir)

    def device_access(self, workdir: Path) -> DeviceAccess | None:
        return self.npu_mode.access(workdir) if self.npu_mode else None

    def preload(self, workdir: Path) -> None:
        """Load the simulator before the process enters the sandbox. CANN's runtime starts threads, which would prevent sandboxing."""
        from evokernel.backends.ascendc.loader import preload_simulator

        if (workdir / "libsimulator.so").exists():
            preload_simulator(workdir / "libsimulator.so")

    def load(self, workdir: Path) -> Kernel:
        if (workdir / CANN_FILE).exists():
            from evokernel.backends.ascendc.cann.call import load_operator

            return load_operator(workdir)
        from evokernel.backends.ascendc.loader import AscendcKernel

        try:
            return AscendcKernel(workdir, "libsimulator.so", "operator.so", self.level, self.chip.runtime_config_text(), self.run_s)
        except ValueError as error:
            raise InfraError(str(error)) from error

    def explain_failure(self, candidate: Candidate, workdir: Path, error: CandidateError) -> CandidateError:
        from evokernel.backends.ascendc.diagnostics import explain_simulator_error, read_sources

        return (
            self.npu_mode.explain_failure(workdir, error)
            if self.npu_mode
            else explain_simulator_error(workdir, read_sources(workdir), error)
        )

    def partial_run_note(self, workdir: Path, stderr: str) -> str:
        from evokernel.backends.ascendc.simulator_report import parse_reports

        if self.npu_mode:
            return ""
        launches = [launch for launch in parse_reports(stderr, load_plan(workdir)["mark"]) if not launch.is_part]
        return (
            f"{launches[-1].blocks_run} of {launches[-1].blocks} blocks ran"
            if launches and launches[-1].blocks_run < launches[-1].blocks
            else ""
        )

    def sanitizer(self) -> OptionalTool:
        return OptionalTool("sanitizer", False, "the NPU has no memory checks; verify with backend.toolchain=simulator, which has them")

    def estimate_latency(self, task: Task, workdir: Path, stderr: str) -> TimingResult:
        from evokernel.backends.ascendc.baseline import estimate_baseline
        from evokernel.backends.ascendc.better_kernel import estimate_better_kernel
        from evokernel.backends.ascendc.diagnostics import locate_sites
        from evokernel.backends.ascendc.profile import profile_kernel
        from evokernel.backends.ascendc.simulator_report import parse_reports, slowest_call_at_size

        if self.npu_mode:
            return self.npu_mode.estimate_latency(task, workdir)
        if self.compile_check_mode and (timing := self.compile_check_mode.estimate_latency(task, workdir)):
            return timing
        tensors = (*task.signature.inputs, *task.signature.params, *task.signature.outputs)
        launch = slowest_call_at_size(parse_reports(stderr, load_plan(workdir)["mark"]), [tensor.nbytes for tensor in tensors])
        base = estimate_baseline(task, self.chip)
        lines = locate_sites(workdir, [site.addresses for site in launch.sites], load_plan(workdir)["first_lines"])
        profile = profile_kernel(task, launch, self.chip, estimate_better_kernel(task, self.chip), lines)
        if base.us is None:
            return TimingResult(CLOCK, (launch.us,), {}, profile)
        figures = profile.figures | {"torch_kernels": float(len(base.kernels)), "torch_outside_us": round(base.outside_us, 4)}
        profile = profile.model_copy(update={"summary": f"{profile.summary} {base.describe()}", "figures": figures})
        return TimingResult(CLOCK, (launch.us,), {"torch": (base.us,)}, profile)


def find_first_lines(text: str, parts: Mapping[str, str]) -> dict[str, int]:
    """The number of lines before each part in the candidate's file; none before a part that is a file of its own."""
    return {name: text.count("\n", 0, max(0, text.find(part))) for name, part in parts.items()}


def load_plan(workdir: Path) -> dict[str, Any]:
    """Read the plan that `build` wrote."""
    plan: dict[str, Any] = json.loads((workdir / PLAN_FILE).read_text())
    return plan
