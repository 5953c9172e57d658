"""What the backends for NVIDIA GPUs do alike: the device, the vendor's tools, the clock."""

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
"""What is compiled for where there is no GPU."""
TRIED = ("small", "held_out", "bench")
PROGRAMS = "programs"


class GpuBackend:
    """A backend whose candidates are recorded programs."""

    def __init__(self, arch: str, device: str, number: int, build_timeout_s: float, profiler: str) -> None:
        if arch and not re.fullmatch(r"sm_\d+[af]?", arch):
            raise ValueError(f"arch must be of the form sm_90, not {arch!r}")
        for name, value, known in (("device", device, DEVICE), ("profiler", profiler, PROFILERS)):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
        if not build_timeout_s > 0:
            raise ValueError(f"build_timeout_s must be above 0, not {build_timeout_s}")
        self.arch, self.wanted, self.number, self.build_timeout_s, self.profiler = arch, device, number, build_timeout_s, profiler

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

    def device_versions(self) -> dict[str, str]:
        """What a verdict says of the device."""
        found = {"architecture": self.architecture}
        return found | ({"gpu": self.device.name, "driver": self.device.driver} if self.device.name else {})

    def access(self, workdir: Path) -> DeviceAccess | None:
        from evokernel.backends.gpu.devices import access

        return access() if (workdir / PROGRAMS).exists() and self.device.name else None

    def sizes_for(self, candidate: Candidate) -> tuple[str, ...]:
        return TRIED

    def explain_failure(self, candidate: Candidate, workdir: Path, error: CandidateError) -> CandidateError:
        return error

    def preload(self, workdir: Path) -> None:
        pass  # the driver starts threads, and a process with threads could not be closed in

    def partial_run_note(self, workdir: Path, said: str) -> str:
        return ""

    def sanitizer(self) -> OptionalTool | None:
        from evokernel.backends.gpu.tools import sanitizer

        return sanitizer(self.device)

    def run_sanitizer(self, candidate: Candidate, workdir: Path, folder: Path, calls: Sequence[Arguments]) -> None:
        from evokernel.backends.gpu.sanitizer_run import lay_out, sanitize

        tool = self.sanitizer()
        assert tool, "only where there is a GPU"
        lay_out(folder, workdir / PROGRAMS, calls, self.number)
        sanitize(tool.detail, folder, candidate.files)

    def build_sanitized(self, task: Task, candidate: Candidate, workdir: Path) -> dict[str, str]:
        return {}

    def parse_sanitizer_report(self, candidate: Candidate, workdir: Path, report: str) -> CandidateError | None:
        return None

    def estimate_latency(self, task: Task, workdir: Path, said: str) -> TimingResult:
        raise ToolUnavailable(f"times ({self.device.why_not})")

    def measure_latency(self, job: Job, workdir: Path, beside: Path | None) -> TimingResult:
        from evokernel.backends.gpu.latency import timed

        best = beside / PROGRAMS if beside else None
        return timed(job.task, workdir / PROGRAMS, best, self.number, self.device, job.baselines, job.timing_s, self.profiler)

    def profile(self, task: Task, outcome: Outcome) -> Profile | None:
        return None
