"""The `pallas` backend plug-in. Methods import jax and the other large packages only when they are called."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.backends.pallas.chips import get_chip
from evokernel.backends.pallas.environment import ENVIRONMENT
from evokernel.backends.pallas.tpu_timing import CLOCK as TPU_CLOCK
from evokernel.backends.pallas.tpu_timing import has_tpu, measure_on_tpu
from evokernel.core.backend import Backend, CallShape, Capabilities, Kernel, OptionalTool, TimingResult
from evokernel.core.errors import CandidateError
from evokernel.core.verification_time import VerificationTime

if TYPE_CHECKING:
    from evokernel.core.records import Candidate, Task, TimedSize

CLOCK = "estimate (schedule)"
VERIFICATION_TIME = VerificationTime(base_s=7.9, exponent=0.01, family_factor=1.47, convolution_factor=1.61, spread=3.0)
CHECKED_SIZES = ("small", "held_out", "laptop", "bench")
DEVICE_MODES = ("auto", "never", "always")
NO_TPU = "not found and not required: latencies are estimated from the compiler's schedule"


class PallasBackend(Backend):
    """`chip` is the TPU generation for which kernels are compiled and latency is estimated: v5e, v6e, v5p, v4 or v7x.

    `device` selects timing on a TPU of this machine: "auto" (if the machine has one), "never" or "always". With `baseline=False`,
    estimates are not compared with XLA, which saves compiling the reference.
    """

    file_name = "kernel.py"
    timed_size: TimedSize = "full"
    environment = ENVIRONMENT

    def __init__(self, chip: str = "v5e", device: str = "auto", baseline: bool = True) -> None:
        if device not in DEVICE_MODES:
            raise ValueError(f"device must be one of {', '.join(DEVICE_MODES)}, not {device!r}")
        self.chip, self.device, self.baseline = get_chip(chip), device, baseline
        self.measures = device == "always" or (device == "auto" and has_tpu())

    def unavailable_reason(self) -> str | None:
        from evokernel.backends.pallas.compiler import unavailable_reason

        if self.device == "always" and not has_tpu():
            return "backend.device=always requires a TPU, and this machine has none. Remove the setting to use estimates."
        return unavailable_reason()

    @property
    def capabilities(self) -> Capabilities:
        """Interpret mode detects races, out-of-bounds accesses and uninitialised memory in every run; latencies on a TPU vary."""
        return Capabilities(
            timing="estimate",
            is_simulated=True,
            tracing="source",
            sanitizer="every_run",
            is_repeatable=not self.measures,
            can_run_parts=True,
            verification_time=None if self.measures else VERIFICATION_TIME,
            estimate_needs_run=False,
        )

    def versions(self) -> dict[str, str]:
        from evokernel.backends.pallas.compiler import toolchain_versions

        return {"chip": self.chip.name, **toolchain_versions()}

    def optional_tools(self) -> Iterable[OptionalTool]:
        available = has_tpu()
        yield OptionalTool("tpu", available, "found; kernels are timed on it" if available else NO_TPU)

    def entry_point(self, task: Task) -> str:
        from evokernel.backends.pallas.entry_point import describe_entry_point

        return describe_entry_point(task.signature)

    def load_libraries(self) -> None:
        from evokernel.backends.pallas import inspection, kernel, trace  # noqa: F401
        from evokernel.backends.pallas.interpret import trace_warm_up_program

        trace_warm_up_program()

    def trace(self, candidate: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        from evokernel.backends.pallas.trace import trace_candidate

        trace_candidate(candidate, calls, into, self.chip)

    def inspect(self, programs: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        from evokernel.backends.pallas.inspection import inspect_programs

        inspect_programs(programs, calls, into, self.chip)

    def lower(self, programs: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        from evokernel.backends.pallas.inspection import lower_bench_program

        lower_bench_program(programs, into, self.chip)

    def explain_exception(self, error: Exception) -> CandidateError:
        from evokernel.backends.pallas.trace import explain_exception

        return explain_exception(error)

    def screen(self, task: Task, candidate: Candidate, workdir: Path) -> Iterable[str]:
        findings: list[str] = json.loads((workdir / "inspect" / "findings.json").read_text())
        return findings

    def build(self, task: Task, candidate: Candidate, workdir: Path) -> None:
        from evokernel.backends.pallas.compiler import LINE_OPTION, CompileError, CompileTimeout, compile_program
        from evokernel.backends.pallas.errors import explain_message

        try:
            program = (workdir / "lower" / "program.mlir").read_bytes()
            compile_program(program, self.chip.topology, workdir / "schedule", flags=(LINE_OPTION,))
        except CompileTimeout as error:
            raise CandidateError("build_timeout", str(error)) from error
        except CompileError as error:
            raise explain_message(str(error)) from error

    def load(self, workdir: Path) -> Kernel:
        from evokernel.backends.pallas.kernel import PallasKernel

        return PallasKernel(workdir, self.chip)

    def sizes_for(self, candidate: Candidate) -> tuple[str, ...]:
        return CHECKED_SIZES

    def estimate_latency(self, task: Task, workdir: Path, stderr: str) -> TimingResult:
        from evokernel.backends.pallas.baseline import baseline_us
        from evokernel.backends.pallas.errors import no_estimate_error
        from evokernel.backends.pallas.profile import profile_analysis
        from evokernel.backends.pallas.schedule import analyse_schedule

        analysis = analyse_schedule(workdir / "schedule", self.chip)
        estimate = analysis.estimate
        if count := estimate.unwaited_transfers:
            raise CandidateError("race", f"the kernel never waits for {count} of its asynchronous copies: call `.wait()` on every copy")
        if self.measures:
            request = {"source": task.source, "bench": task.sizes["bench"]}
            times = measure_on_tpu(workdir / "programs" / "bench.program", request, self.chip)
            return TimingResult(TPU_CLOCK, times.samples_us, {"xla": times.baseline_us}, profile_analysis(task, analysis, self.chip))
        if not estimate.is_certified or (estimate.compares_indices and json.loads((workdir / "inspect" / "tables.json").read_text())):
            raise no_estimate_error(estimate.notes)
        base = baseline_us(task, self.chip) if self.baseline else None
        return TimingResult(
            CLOCK, (estimate.latency_us,), {} if base is None else {"xla": (base,)}, profile_analysis(task, analysis, self.chip)
        )
