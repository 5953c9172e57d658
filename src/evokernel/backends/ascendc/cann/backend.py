"""Selects how the backend uses CANN on this machine: to run kernels on an NPU, to check that they compile, or not at all."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from evokernel.backends.ascendc.cann import detect, quick_compile, simulate, tensor_server, worker
from evokernel.backends.ascendc.cann.call import BUILD_RECORD, runtime_variables
from evokernel.backends.ascendc.cann.description import operator_json
from evokernel.backends.ascendc.cann.detect import NONE, NOT_REPORTED, NPU, Installation
from evokernel.backends.ascendc.cann.diagnosis import profile_measurement
from evokernel.backends.ascendc.cann.environment import build_environment
from evokernel.backends.ascendc.cann.pipeline import LAUNCHES, TIMING_FOLDER, CannPipeline
from evokernel.backends.ascendc.cann.tiling_probe import probe_tiling
from evokernel.backends.ascendc.cann.tools import npu_device_files
from evokernel.backends.ascendc.chips import Chip, load_chips
from evokernel.backends.ascendc.project import Project
from evokernel.core.backend import DeviceAccess, OptionalTool, TimingResult
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.records import Task

NPU_CLOCK, CANN_SIMULATOR_CLOCK = "device (msprof)", "estimate (CANN simulator)"
BUILD_TIMEOUT_S = 600.0
DRIVER_INFO_PATHS = ("/etc/ascend_install.info", "/usr/local/Ascend", "/usr/local/dcmi")
"""Files in which the driver describes itself."""
PROJECT_FILE = "project.json"
SIMULATOR_MAX_BYTES = 4 << 20
"""Largest traffic of a task for CANN's simulator, which needs seconds for a microsecond of NPU time."""


class NpuMode:
    """CANN builds the kernels, the candidate process runs them on the NPU, and the profiler times them."""

    is_npu: Literal[True] = True

    def __init__(self, pipeline: CannPipeline, chip: Chip) -> None:
        self.pipeline, self.chip = pipeline, chip

    def versions(self) -> dict[str, str]:
        return {"chip": self.chip.name, "toolchain": "cann", **self.pipeline.installation.versions}

    def build(self, task: Task, project: Project, workdir: Path) -> None:
        self.pipeline.build(project, operator_json(project, task.signature), workdir)

    def access(self, workdir: Path) -> DeviceAccess:
        """Device files and paths that the candidate process needs."""
        variables = runtime_variables(json.loads((workdir / BUILD_RECORD).read_text())["variables"])
        return DeviceAccess(tuple(npu_device_files()), (str(self.pipeline.home), *DRIVER_INFO_PATHS), variables)

    def explain_failure(self, workdir: Path, error: CandidateError) -> CandidateError:
        """Check the NPU itself after a killed run, because the candidate process could falsely blame it."""
        if error.reason == "killed":
            self.pipeline.raise_if_npu_lost(workdir)
        return error

    def estimate_latency(self, task: Task, workdir: Path) -> TimingResult:
        """Measure with the profiler. The baseline is PyTorch on the same NPU if torch_npu is installed; otherwise there is none."""
        folder = workdir / TIMING_FOLDER
        torch = tensor_server.write_timing_order(task, workdir, folder, LAUNCHES, self.pipeline.device)
        measurement = self.pipeline.profile_order(workdir, folder)
        base = {"torch": subsample_medians(torch, len(measurement.duration_us))} if torch else {}
        return TimingResult(NPU_CLOCK, measurement.duration_us, base, profile_measurement(task, measurement, self.chip))


class CompileCheckMode:
    """CANN only compiles the kernels, and our simulator runs them. With `uses_cann_simulator`, CANN's simulator times small tasks."""

    is_npu: Literal[False] = False

    def __init__(self, pipeline: CannPipeline, chip: Chip, compiler: str, uses_cann_simulator: bool) -> None:
        self.pipeline, self.chip, self.compiler, self.simulates = pipeline, chip, compiler, uses_cann_simulator

    def versions(self) -> dict[str, str]:
        """Versions of CANN, in addition to those of the simulator."""
        return self.pipeline.installation.versions

    def check_compiles(self, project: Project, workdir: Path) -> None:
        """Raise the errors of bisheng. Does nothing if this version cannot compile a single kernel."""
        installation, variables = self.pipeline.installation, build_environment(workdir, self.pipeline.home)
        quick_compile.check_compiles(project, installation.tools["bisheng"], workdir, variables)
        (workdir / PROJECT_FILE).write_text(json.dumps(asdict(project)))

    def estimate_latency(self, task: Task, workdir: Path) -> TimingResult | None:
        """Time a kernel on CANN's simulator, without a baseline; None if there is no simulator or the task is too large."""
        installation = self.pipeline.installation
        if not self.simulates or not any(installation.tools[name] for name in detect.PROFILERS) or task.work.bytes > SIMULATOR_MAX_BYTES:
            return None
        folder = workdir / TIMING_FOLDER
        tensor_server.write_timing_order(task, workdir, folder, 1)
        arguments = worker.read_arguments(json.loads((folder / worker.ORDER_FILE).read_text()), folder)
        tiling = probe_tiling(workdir, arguments, self.chip.runtime_config_text(), self.compiler)
        project = Project(**json.loads((workdir / PROJECT_FILE).read_text()))
        variables = build_environment(workdir, self.pipeline.home)
        measurement = simulate.time_on_simulator(
            project, installation, self.chip.soc, arguments, tiling, workdir, variables, self.pipeline.build_timeout_s
        )
        return TimingResult(CANN_SIMULATOR_CLOCK, measurement.duration_us, {}, profile_measurement(task, measurement, self.chip))


def select_mode(
    toolchain: str, chip: Chip, device: int, build_timeout_s: float | None, compiler: str, installation: Installation | None = None
) -> NpuMode | CompileCheckMode | None:
    """The mode for this machine; None if only the simulator is used. `unavailable_reason` reports missing parts."""
    installation = installation or detect.detect_installation()
    if installation.level == NONE:
        return None
    pipeline = CannPipeline(installation, chip.soc, device, build_timeout_s or BUILD_TIMEOUT_S)
    if installation.level == NPU and not is_unsupported_npu(installation):
        return NpuMode(pipeline, chip)
    return CompileCheckMode(pipeline, chip, compiler, uses_cann_simulator=toolchain == "cann")


def unavailable_reason(toolchain: str, chip: Chip, installation: Installation | None = None) -> str | None:
    """Why the requested toolchain is not available here, with the fix; None if it is."""
    installation = installation or detect.detect_installation()
    if toolchain == "cann" and installation.level == NONE:
        return f"{installation.fix}; or set backend.toolchain=auto"
    if installation.level != NPU:
        return None
    name = npu_name(installation)
    if is_unsupported_npu(installation):
        why = f"this machine has {installation.versions['npu']}, but this backend supports only {', '.join(load_chips())}"
        return f"{why}: set backend.toolchain=simulator" if toolchain == "cann" else None
    fitting = [one for one in load_chips() if name.startswith(one)]
    return (
        f"this machine has {installation.versions['npu']}: set backend.chip={fitting[0]}" if fitting and chip.name not in fitting else None
    )


def npu_name(installation: Installation) -> str:
    """`910B2` of `8 x 910B2`; "" if the driver does not report it."""
    name = installation.versions.get("npu", NOT_REPORTED)
    return "" if name == NOT_REPORTED else name.rpartition(" ")[2]


def is_unsupported_npu(installation: Installation) -> bool:
    """Whether the NPU is a chip that this backend does not support."""
    name = npu_name(installation)
    return bool(name) and not any(name.startswith(one) for one in load_chips())


def list_optional_tools(simulator_version: str, installation: Installation | None = None) -> Iterator[OptionalTool]:
    """The installed parts of CANN, with their effect and hints for missing ones."""
    installation = installation or detect.detect_installation()
    if installation.level == NONE:
        yield OptionalTool("CANN", False, f"not installed, and not required; kernels run on the simulator ({installation.fix})")
    else:
        version = f"{installation.versions.get('cann', NOT_REPORTED)} at {installation.home}"
        yield OptionalTool("CANN", True, f"{version}; {installation.fix}" if installation.fix else version)
    if installation.level == NPU and not is_unsupported_npu(installation):
        yield OptionalTool("NPU", True, f"{installation.versions['npu']}; kernels run on it and msprof times them")
    elif installation.level == NPU:
        yield OptionalTool(
            "NPU", False, f"{installation.versions['npu']}, which this backend does not support; times are estimates of the simulator"
        )
    else:
        also = (
            ""
            if installation.level == NONE
            else "; bisheng also compiles every kernel, and backend.toolchain=cann times small tasks on CANN's simulator"
        )
        yield OptionalTool("NPU", False, f"none; times are estimates of the simulator{also}")
    yield OptionalTool("Ascend C simulator", True, f"{simulator_version}; backend.toolchain=simulator uses only this")


def subsample_medians(times: Sequence[float], count: int) -> tuple[float, ...]:
    """Reduce trials to `count` figures: each is the median of every `count`-th trial."""
    return tuple(statistics.median(times[start::count]) for start in range(count))
