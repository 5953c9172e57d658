"""Base class of the backends for NVIDIA GPUs: device, NVIDIA's tools, timing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.core.errors import CandidateError, ToolUnavailable
from evokernel.core.protocols import Arguments, DeviceAccess, OptionalTool, TimingResult

if TYPE_CHECKING:
    from evokernel.backends.gpu.devices import Device
    from evokernel.core.records import Candidate, Job, Outcome, Profile, Task

DEVICE, PROFILERS = ("auto", "never", "always"), ("ncu", "never")
ARCHITECTURE = "sm_90a"
"""The architecture to compile for without a GPU."""
TRIED = ("small", "held_out", "bench")
PROGRAMS = "programs"


class GpuBackend:
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

    @cached_property
    def device(self) -> Device:
        """The GPU, queried when it is first needed."""
        from evokernel.backends.gpu.devices import Device, query_device

        return Device(unavailable_reason="backend.device=never") if self.device_mode == "never" else query_device(self.number)

    @property
    def repeatable(self) -> bool:
        """Whether outcomes are repeatable: not with a GPU, because measured times vary."""
        return not self.device.name

    @property
    def architecture(self) -> str:
        return self.arch or self.device.architecture or ARCHITECTURE

    def device_versions(self) -> dict[str, str]:
        """Returns the device's entries in the versions of an outcome."""
        versions = {"architecture": self.architecture}
        return versions | ({"gpu": self.device.name, "driver": self.device.driver} if self.device.name else {})

    def access(self, workdir: Path) -> DeviceAccess | None:
        from evokernel.backends.gpu.devices import device_access

        return device_access() if (workdir / PROGRAMS).exists() and self.device.name else None

    def sizes_for(self, candidate: Candidate) -> tuple[str, ...]:
        return TRIED

    def explain_failure(self, candidate: Candidate, workdir: Path, error: CandidateError) -> CandidateError:
        return error

    def preload(self, workdir: Path) -> None:
        pass  # the driver starts threads, and a process with threads cannot enter the sandbox

    def partial_run_note(self, workdir: Path, said: str) -> str:
        return ""

    def sanitizer(self) -> OptionalTool | None:
        from evokernel.backends.gpu.tools import find_sanitizer

        return find_sanitizer(self.device)

    def run_sanitizer(self, candidate: Candidate, workdir: Path, folder: Path, calls: Sequence[Arguments]) -> None:
        from evokernel.backends.gpu.sanitizer_run import run_compute_sanitizer, write_standalone_order

        tool = self.sanitizer()
        assert tool, "the sanitizer runs only with a GPU"
        write_standalone_order(folder, workdir / PROGRAMS, calls, self.number)
        run_compute_sanitizer(tool.detail, folder, candidate.files)

    def build_sanitized(self, task: Task, candidate: Candidate, workdir: Path) -> dict[str, str]:
        return {}

    def parse_sanitizer_report(self, candidate: Candidate, workdir: Path, report: str) -> CandidateError | None:
        return None

    def estimate_latency(self, task: Task, workdir: Path, said: str) -> TimingResult:
        raise ToolUnavailable(f"times ({self.device.unavailable_reason})")

    def measure_latency(self, job: Job, workdir: Path, beside: Path | None) -> TimingResult:
        from evokernel.backends.gpu.latency import measure_on_device

        best = beside / PROGRAMS if beside else None
        return measure_on_device(job.task, workdir / PROGRAMS, best, self.number, self.device, job.baselines, job.timing_s, self.profiler)

    def profile(self, task: Task, outcome: Outcome) -> Profile | None:
        return None
