"""Base class of the backends for NVIDIA GPUs: device, NVIDIA's tools, timing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from evokernel.core.backend import (
    Arguments,
    Backend,
    Capabilities,
    DeviceAccess,
    DeviceCase,
    DeviceCheckResult,
    OptionalTool,
    TimingResult,
)
from evokernel.core.errors import ToolUnavailable

if TYPE_CHECKING:
    from evokernel.backends.gpu.devices import Device
    from evokernel.core.records import Candidate, Job, Task, TimedSize

DEVICE, PROFILERS = ("auto", "never", "always"), ("ncu", "never")
ARCHITECTURE = "sm_90a"
"""The architecture to compile for without a GPU."""
TRIED = ("small", "held_out", "bench")
PROGRAMS = "programs"


class GpuBackend(Backend):
    """A backend whose candidates are recorded programs."""

    def __init__(self, arch: str, device: str, number: int, build_timeout_s: float, profiler: str) -> None:
        if arch and not re.fullmatch(r"sm_\d+[af]?", arch):
            raise ValueError(f"arch must be of the form sm_90, not {arch!r}")
        for name, value, allowed in (("device", device, DEVICE), ("profiler", profiler, PROFILERS)):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        if not build_timeout_s > 0:
            raise ValueError(f"build_timeout_s must be above 0, not {build_timeout_s}")
        self.arch, self.device_mode, self.number, self.build_timeout_s, self.profiler = arch, device, number, build_timeout_s, profiler

    max_useful_workers = 4

    @cached_property
    def device(self) -> Device:
        """The GPU, queried when it is first needed."""
        from evokernel.backends.gpu.devices import Device, query_device

        return Device(unavailable_reason="backend.device=never") if self.device_mode == "never" else query_device(self.number)

    @property
    def timed_size(self) -> TimedSize:
        """Without a GPU nothing is timed, and an interpreter would take hours."""
        return "full" if self.device.name else "laptop"

    def device_capabilities(self, tracing: Literal["source", "build"], limitations: str, can_check_values: bool) -> Capabilities:
        """Return the capabilities with or without a GPU: an interpreter's runs are slow and repeatable, measured times vary."""
        has_device = bool(self.device.name)
        return Capabilities(
            timing="device" if has_device else "estimate",
            is_simulated=can_check_values and not has_device,
            tracing=tracing,
            sanitizer="external" if has_device else "every_run",
            is_repeatable=not has_device,
            limitations="" if has_device else f"{self.device.unavailable_reason}; {limitations}",
            can_check_values=has_device or can_check_values,
            checks_on_device=has_device,
        )

    @property
    def architecture(self) -> str:
        return self.arch or self.device.architecture or ARCHITECTURE

    def device_versions(self) -> dict[str, str]:
        """Returns the device's entries in the versions of an outcome."""
        versions = {"architecture": self.architecture}
        return versions | ({"gpu": self.device.name, "driver": self.device.driver} if self.device.name else {})

    def device_access(self, workdir: Path) -> DeviceAccess | None:
        from evokernel.backends.gpu.devices import device_access

        return device_access() if (workdir / PROGRAMS).exists() and self.device.name else None

    def sizes_for(self, candidate: Candidate) -> tuple[str, ...]:
        return TRIED

    def start_processes(self, protocol: str) -> None:
        if self.device.name:
            from evokernel.backends.gpu.early_start import start_gpu_processes

            start_gpu_processes(self.device, self.number, self.profiler == "ncu", protocol == "strict")

    def sanitizer(self) -> OptionalTool:
        from evokernel.backends.gpu.tools import find_sanitizer

        return find_sanitizer(self.device)

    def run_sanitizer(self, candidate: Candidate, workdir: Path, folder: Path, calls: Sequence[Arguments]) -> None:
        from evokernel.backends.gpu.sanitizer_run import list_needed_tools, run_compute_sanitizer, write_standalone_order

        write_standalone_order(folder, workdir / PROGRAMS, calls)
        run_compute_sanitizer(self.sanitizer().detail, folder, candidate.files, self.number, list_needed_tools(workdir / PROGRAMS))

    def estimate_latency(self, task: Task, workdir: Path, stderr: str) -> TimingResult:
        raise ToolUnavailable(f"times ({self.device.unavailable_reason})")

    def check_on_device(self, job: Job, workdir: Path, cases: Sequence[DeviceCase]) -> DeviceCheckResult:
        from evokernel.backends.gpu.latency import check_timed_size

        return check_timed_size(job, workdir / PROGRAMS, cases, self.number)

    def device_memory_shortage(self, task: Task) -> str:
        from evokernel.backends.gpu.device_memory import describe_shortage

        return describe_shortage(task, self.device.memory_bytes) if self.device.name else ""

    def measure_latency(self, job: Job, workdir: Path, incumbent_workdir: Path | None) -> TimingResult:
        from evokernel.backends.gpu.latency import measure_on_device
        from evokernel.core.plugins import plugin_folder

        best = incumbent_workdir / PROGRAMS if incumbent_workdir else None
        cards = [path.stem for path in (plugin_folder("backend", job.backend) / "knowledge").glob("*.md")]
        return measure_on_device(
            job.task, workdir / PROGRAMS, best, self.number, self.device, job.baselines, job.timing_s, self.profiler, cards
        )
