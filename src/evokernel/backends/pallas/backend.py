"""The `pallas` plug-in. Everything heavy is imported when asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from evokernel.backends.pallas.chips import chip as chip_called
from evokernel.backends.pallas.device import CLOCK as MEASURED
from evokernel.backends.pallas.device import measure, present
from evokernel.backends.pallas.environment import ENVIRONMENT
from evokernel.core.errors import CandidateError
from evokernel.core.protocols import CallShape, Kernel, OptionalTool, TimingResult

if TYPE_CHECKING:
    from evokernel.core.records import Candidate, Outcome, Profile, Task

CLOCK = "estimate (schedule)"
TRIED = ("small", "held_out", "bench")
DEVICE = ("auto", "never", "always")
NO_TPU = "none, and none is needed; times are estimates from the compiler's schedule"


class PallasBackend:
    """`chip` is the TPU generation kernels are compiled and priced for: v5e, v6e, v5p, v4 or v7x.

    `device` says whether they are timed on a TPU of this machine: "auto" (when there is one), "never" or "always". Without `baseline`,
    estimates are held against nothing, and nobody waits until XLA has compiled the reference.
    """

    file = "kernel.py"
    environment: ClassVar[dict[str, str]] = ENVIRONMENT

    def __init__(self, chip: str = "v5e", device: str = "auto", baseline: bool = True) -> None:
        if device not in DEVICE:
            raise ValueError(f"device must be one of {', '.join(DEVICE)}, not {device!r}")
        self.chip, self.device, self.baseline = chip_called(chip), device, baseline
        self.measures = device == "always" or (device == "auto" and present())
        self.repeatable = not self.measures

    def unavailable_reason(self) -> str | None:
        from evokernel.backends.pallas.compiler import missing

        if self.device == "always" and not present():
            return "this machine has no TPU to time kernels on: leave out backend.device=always for estimates"
        return missing()

    def versions(self) -> dict[str, str]:
        from evokernel.backends.pallas.compiler import versions

        return {"chip": self.chip.name, **versions()}

    def optional_tools(self) -> Iterable[OptionalTool]:
        found = present()
        yield OptionalTool("tpu", found, "found; kernels are timed on it" if found else NO_TPU)

    def entry_point(self, task: Task) -> str:
        from evokernel.backends.pallas.entry import described

        return described(task.signature)

    def load_libraries(self) -> None:
        from evokernel.backends.pallas import inspection, kernel, trace  # noqa: F401
        from evokernel.backends.pallas.interpret import warm

        warm()

    def trace(self, candidate: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        from evokernel.backends.pallas.trace import trace

        trace(candidate, calls, into, self.chip)

    def inspect(self, programs: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        from evokernel.backends.pallas.inspection import inspect

        inspect(programs, calls, into, self.chip)

    def lower(self, programs: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        from evokernel.backends.pallas.inspection import lower

        lower(programs, into, self.chip)

    def explain(self, error: Exception) -> CandidateError:
        from evokernel.backends.pallas.trace import explained

        return explained(error)

    def screen(self, task: Task, candidate: Candidate, workdir: Path) -> Iterable[str]:
        found: list[str] = json.loads((workdir / "inspect" / "findings.json").read_text())
        return found

    def build(self, task: Task, candidate: Candidate, workdir: Path) -> None:
        from evokernel.backends.pallas.compiler import Refused, TooSlow, compile_program
        from evokernel.backends.pallas.errors import explain

        try:
            compile_program((workdir / "lower" / "program.mlir").read_bytes(), self.chip.topology, workdir / "schedule")
        except TooSlow as error:
            raise CandidateError("build_timeout", str(error)) from error
        except Refused as error:
            raise explain(str(error)) from error

    def load(self, workdir: Path) -> Kernel:
        from evokernel.backends.pallas.kernel import PallasKernel

        return PallasKernel(workdir, self.chip)

    def sanitizer(self) -> OptionalTool | None:
        return None  # interpret mode looks for races, accesses out of bounds and memory that was never set, whenever a kernel is run

    def build_sanitized(self, task: Task, candidate: Candidate, workdir: Path) -> dict[str, str]:
        return {}

    def parse_sanitizer_report(self, candidate: Candidate, workdir: Path, report: str) -> CandidateError | None:
        return None

    def sizes_for(self, candidate: Candidate) -> tuple[str, ...]:
        return TRIED

    def explain_failure(self, candidate: Candidate, workdir: Path, error: CandidateError) -> CandidateError:
        return error  # interpret mode says what is wrong in the words of the kernel's writer already

    def preload(self, workdir: Path) -> None:
        pass  # interpreting needs nothing more

    def partial_run_note(self, workdir: Path, said: str) -> str:
        return ""

    def estimate_latency(self, task: Task, workdir: Path, said: str) -> TimingResult:
        from evokernel.backends.pallas.baseline import baseline_us
        from evokernel.backends.pallas.errors import unpriced
        from evokernel.backends.pallas.profile import profile
        from evokernel.backends.pallas.schedule import estimate

        found = estimate(workdir / "schedule", self.chip)
        if found.unwaited:
            raise CandidateError("race", f"{found.unwaited} asynchronous copies are started and never waited for: call .wait() on each")
        if self.measures:
            order = {"source": task.source, "bench": task.sizes["bench"]}
            measured = measure(workdir / "programs" / "bench.program", order, self.chip)
            return TimingResult(MEASURED, measured.samples_us, {"xla": measured.baseline_us}, profile(task, found, self.chip))
        if not found.certified or (found.compares and json.loads((workdir / "inspect" / "tables.json").read_text())):
            raise unpriced(found.notes)
        base = baseline_us(task, self.chip) if self.baseline else None
        return TimingResult(CLOCK, (found.us,), {} if base is None else {"xla": (base,)}, profile(task, found, self.chip))

    def profile(self, task: Task, outcome: Outcome) -> Profile | None:
        return None
