"""The backend of a kernel language: the base class, the record of its capabilities, and the types at its interface.

A backend must write four methods: `entry_point`, `screen`, `build` and `load`. Every other method has a default that is right for a kernel
which is compiled to machine code and runs in the candidate process on this machine. Override `capabilities` and the methods of one of the
groups below for more: a sanitizer, latencies of the backend's own, a device, a simulator, or tracing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from evokernel.core.errors import CandidateError, ToolUnavailable, UserError
from evokernel.core.verification_time import VerificationTime

if TYPE_CHECKING:  # every candidate process loads this module and must not wait for pydantic
    from evokernel.core.output_difference import OutputDifference
    from evokernel.core.records import Candidate, Job, Outcome, Profile, Task, TimedSize

SIZES = ("small", "held_out", "odd", "laptop", "bench")
"""The sizes of a task at which the verifier runs a kernel, in this order; `bench` is the timed one. Only a task whose timed size is too
large to run whole has a size `laptop`."""


class Array(NamedTuple):
    """A contiguous tensor in memory that the verifier shares with the candidate process."""

    name: str
    dtype: str
    """As in `Tensor.dtype`; `data` stores float16 natively and bfloat16 as uint16."""
    data: np.ndarray


class Arguments(NamedTuple):
    """Arguments of one kernel call, in the order of the signature. The verifier fills outputs with poison values before the call."""

    inputs: tuple[Array, ...]
    """Inputs, then parameters and buffers; mapped as read-only memory."""
    scalars: tuple[tuple[str, str, float], ...]
    """Name, kind (`int`, `float`, `bool`), value."""
    outputs: tuple[Array, ...]


class Kernel(Protocol):
    """A built candidate, loaded in the candidate process."""

    def bind(self, arguments: Arguments) -> Callable[[], None]:
        """Return a function that runs the kernel once on these arguments and returns when the outputs are complete."""


class PartialKernel(Kernel, Protocol):
    """A kernel that can also be run in parts, at sizes too large to run completely."""

    def bind_parts(self, arguments: Arguments) -> Parts:
        """Prepare a call whose tensors are sparse memory: only the parts that `Parts.run` names may touch it."""


class Parts(Protocol):
    """A kernel call that can be run in parts: blocks of the launch, or output blocks of the grid.

    A position is in [0, 1]: 0 is the first part, 1 the last.
    """

    @property
    def do_parts_wait(self) -> bool:
        """Whether parts wait for each other, so that running one takes about as long as running several. Known after `locate`."""

    def locate(self, positions: Sequence[float]) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each output, return sorted, disjoint ranges [start, stop) of flat element indices that the parts at these positions write.

        Raises CandidateError("unwritten", ...) if all parts together leave elements of an output unwritten.
        """

    def run(self, positions: Sequence[float]) -> None:
        """Run only the parts at these positions, with all steps that accumulate into them; other elements of the outputs stay untouched."""


class OptionalTool(NamedTuple):
    """A tool or device that a backend can use but does not require."""

    name: str
    is_available: bool
    detail: str
    """Version and location, or the consequence of its absence."""


class CallShape(NamedTuple):
    """Names, dtypes and shapes of the arguments of a kernel call at one size, without data."""

    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    scalars: tuple[tuple[str, str, float], ...]
    outputs: tuple[tuple[str, str, tuple[int, ...]], ...]


class TimingResult(NamedTuple):
    """Latency samples of a candidate, paired one to one with those of the baselines and of the incumbent."""

    clock: str
    """Source of the times, shown next to every number: `cpu`, `wall`, `gpu` or `estimate (schedule)`."""
    samples_us: tuple[float, ...]
    """Latency samples in microseconds; a single one if the estimate is deterministic."""
    baseline_us: dict[str, tuple[float, ...]]
    """Samples of each available baseline in microseconds."""
    profile: Profile | None = None
    """What limits the latency; None: `Backend.profile` finds out."""
    incumbent_us: tuple[float, ...] = ()
    """Samples of the best kernel so far in microseconds, measured alternately; empty if it was not timed."""


class DeviceCase(NamedTuple):
    """One case at the timed size that the backend draws, runs and compares on its device."""

    kind: str
    """The kind of inputs, such as `own` or `wide`."""
    seed: int
    options: tuple[bool, bool, bool] = (True, True, True)
    """How far the kind may go: extreme values, negative inputs, negative parameters."""
    repeats: int = 1
    """How often the kernel runs on the same inputs; every run must give equal bits."""


class DeviceCaseResult(NamedTuple):
    """What became of one case on the device."""

    status: Literal["passed", "failed", "unsuitable", "skipped"]
    """`unsuitable`: the operator is not defined for such inputs. `skipped`: the time for the check was over."""
    reason: str = ""
    detail: str = ""
    difference: OutputDifference | None = None
    """How the first wrong output differs; None if the case failed for another reason."""
    is_stale: bool = False
    """Whether the outputs are those of an earlier case."""


class DeviceCheckResult(NamedTuple):
    """The cases that ran on the device in order, up to the first that failed."""

    cases: tuple[DeviceCaseResult, ...]
    note: str = ""
    """Why a check was weaker than usual; empty if it was not."""


class DeviceAccess(NamedTuple):
    """Sandbox permissions that a candidate process needs for a device and its vendor's runtime."""

    devices: tuple[str, ...]
    """Device files with read, write and ioctl access."""
    readable: tuple[str, ...]
    """Readable folders and files of the runtime."""
    variables: dict[str, str]
    """Environment variables."""
    holds_candidate: bool = True
    """Whether the process runs host code of the candidate. If it runs only device code, the candidate cannot make system calls, and the
    sandbox allows those of the vendor's runtime."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a backend can do with its settings on this machine. The verifier chooses from it how kernels are run and timed."""

    timing: Literal["host", "estimate", "device"] = "host"
    """Who times a kernel: the verifier on the host's clock; `estimate_latency`; or `measure_latency`, alternately with the incumbent."""
    is_simulated: bool = False
    """Whether kernels run in a slow simulation or interpreter, so that the verifier runs fewer cases."""
    tracing: Literal["no", "source", "build"] = "no"
    """Whether the candidate's own code only runs once, in a process that ends before the verification, to write the program that is then
    verified: from its source before `screen`, or from its build folder after `build`."""
    sanitizer: Literal["no", "every_run", "instrumented", "external"] = "no"
    """What finds invalid memory accesses: nothing; every run of a kernel; `build_sanitized`; or `run_sanitizer` on the ordinary build."""
    is_repeatable: bool = False
    """Whether a second verification of a candidate would give the same outcome, so that outcomes may be cached."""
    estimate_needs_run: bool = True
    """Whether `estimate_latency` needs a run of the kernel at the timed size; otherwise it follows from the build alone."""
    limitations: str = ""
    """The checks that are impossible on this machine, and why; empty if there are none."""
    can_run_parts: bool = False
    """Whether loaded kernels are `PartialKernel`s, so that sizes which are too large to run whole can be checked."""
    can_check_values: bool = True
    """Whether correctness can be decided on this machine."""
    verification_time: VerificationTime | None = None
    """How long verifications of sizes that run in parts take; None if that was not measured."""
    checks_on_device: bool = False
    """Whether `check_on_device` draws, runs and compares the cases of the timed size on the device, so that the host holds none of them."""

    @property
    def can_check_full_sizes(self) -> bool:
        """Whether a kernel can be checked at sizes that the host cannot hold."""
        return self.can_run_parts or self.checks_on_device


class Backend(ABC):
    """A kernel language with its toolchain and device.

    The constructor takes the backend's settings. `screen`, `build` and `profile` run in the verifier's process; `load` runs in the
    candidate process. `__init__.py` must import only light modules, because every candidate process loads it.
    """

    file_name: ClassVar[str] = "kernel.cpp"
    """The name of a candidate's main file; its suffix also recognizes candidates on disk."""
    other_suffixes: ClassVar[tuple[str, ...]] = ()
    """Suffixes of further files that are candidates of this backend."""
    same_suffixes: ClassVar[tuple[str, ...]] = ()
    """Suffixes that people use instead of the one of `file_name`; a single file with one of them is stored as `file_name`."""
    part_names: ClassVar[tuple[str, ...]] = ()
    """Names of the parts that a reply may write `file_name` in, each after a line `// file: NAME`."""
    takes_complex: ClassVar[bool] = False
    """Whether tensors of a task may be complex."""
    environment: ClassVar[Mapping[str, str]] = {}
    """Environment variables of candidate processes."""

    # Required.

    @abstractmethod
    def entry_point(self, task: Task) -> str:
        """Return the declaration that a candidate must implement, in the backend's language."""

    @abstractmethod
    def screen(self, task: Task, candidate: Candidate, workdir: Path) -> Iterable[str]:
        """Yield the rule violations in the candidate's source; none if it may be built."""

    @abstractmethod
    def build(self, task: Task, candidate: Candidate, workdir: Path) -> None:
        """Build the candidate into `workdir`. Raises CandidateError with the compiler's first errors."""

    @abstractmethod
    def load(self, workdir: Path) -> Kernel:
        """Load the kernel that `build` left in `workdir`."""

    # Optional: what the backend is and can do here.

    def unavailable_reason(self) -> str | None:
        """Return why the backend cannot work on this machine and how to fix that; None if it can.

        The default checks that the packages in `requirements.txt` of the backend's folder are installed.
        """
        from evokernel.core.requirements import find_missing_requirement

        return find_missing_requirement(type(self))

    @property
    def timed_size(self) -> TimedSize:
        """The size of tasks at which kernels are timed on this machine, unless the user chooses another."""
        return "laptop"

    max_useful_workers: int | None = None
    """Parallel verifications beyond which a machine gains nothing, because they share a device; None: one per core."""

    @property
    def capabilities(self) -> Capabilities:
        """What the backend can do with these settings on this machine; read in the verifier's process only."""
        return Capabilities()

    def versions(self) -> dict[str, str]:
        """Return the versions of the toolchain, for the run's records."""
        return {}

    def optional_tools(self) -> Iterable[OptionalTool]:
        """Return the optional tools that `evokernel doctor` reports."""
        return ()

    @classmethod
    def recognizes(cls, path: Path) -> bool:
        """Whether a file or folder is a candidate in another format than `file_name` that this backend accepts."""
        return False

    def profile(self, task: Task, outcome: Outcome) -> Profile | None:
        """Return what limits the latency of a timed kernel; None if that is unknown."""
        return None

    # Optional: the sizes at which kernels run, and the process that runs them.

    def sizes_for(self, candidate: Candidate) -> tuple[str, ...]:
        """Return the sizes at which the verifier runs this candidate; ("bench",) for a kernel that is written for a single size."""
        return SIZES

    def device_access(self, workdir: Path) -> DeviceAccess | None:
        """In the verifier's process, before it starts a candidate process: return the device permissions; None if no device is needed."""
        return None

    def has_candidate_code(self, workdir: Path) -> bool:
        """Whether the process that loads this build runs code of the candidate, so that its reports about the machine are not trusted."""
        return self.capabilities.tracing == "no"

    def start_processes(self, protocol: str) -> None:
        """In the verifier's process, when a verification begins: start the processes of later gates that load slowly, without waiting."""
        return

    def preload(self, workdir: Path) -> None:
        """In the candidate process, before the sandbox closes: load libraries that need more permissions than a kernel has."""
        return

    def explain_failure(self, candidate: Candidate, workdir: Path, error: CandidateError) -> CandidateError:
        """Rewrite the error of a failed run into a message for the generator."""
        return error

    def partial_run_note(self, workdir: Path, stderr: str) -> str:
        """After a run: return how much of the kernel was executed, if not all of it; else an empty text."""
        return ""

    # Optional: a sanitizer.

    def sanitizer(self) -> OptionalTool:
        """Return the tool that checks memory accesses; if it is missing, `detail` says what follows and names the fix."""
        return OptionalTool("sanitizer", False, "this backend has none: reads outside the inputs that do not change results are not found")

    def build_sanitized(self, task: Task, candidate: Candidate, workdir: Path) -> dict[str, str]:
        """Build the candidate with the sanitizer into `workdir`; return environment variables for the process that loads it."""
        raise NotImplementedError

    def parse_sanitizer_report(self, candidate: Candidate, workdir: Path, report: str) -> CandidateError | None:
        """Translate the sanitizer's stderr output into a message for the generator; None if it reports no error."""
        return None

    def run_sanitizer(self, candidate: Candidate, workdir: Path, folder: Path, calls: Sequence[Arguments]) -> None:
        """Run these calls under an external sanitizer. Raises CandidateError for its findings, ToolUnavailable if it does not work."""
        raise NotImplementedError

    # Optional: latencies of the backend's own.

    def estimate_latency(self, task: Task, workdir: Path, stderr: str) -> TimingResult:
        """Return the latency of a built candidate. Raises CandidateError if it can be neither measured nor estimated.

        `stderr` is the output of the process that ran the candidate. It is untrusted if that process has the candidate's code.
        """
        raise ToolUnavailable("times: this backend does not estimate latencies")

    def measure_latency(self, job: Job, workdir: Path, incumbent_workdir: Path | None) -> TimingResult:
        """Measure a built candidate and the job's baselines within the job's timing budget, alternately with the best kernel so far.

        `incumbent_workdir` is the folder in which the best kernel so far was built and traced; None if there is none.
        """
        raise ToolUnavailable("times: this backend does not measure latencies")

    def check_on_device(self, job: Job, workdir: Path, cases: Sequence[DeviceCase]) -> DeviceCheckResult:
        """Check a built candidate at the timed size, with inputs, expected outputs and comparisons on the device."""
        raise NotImplementedError

    def device_memory_shortage(self, task: Task) -> str:
        """Return how much device memory a verification needs and how much there is, if that is too little; otherwise an empty text."""
        return ""

    # Optional: tracing. These methods run in processes of their own; see `Capabilities.tracing`.

    def load_libraries(self) -> None:
        """Load the libraries that every candidate needs, in a process that is then forked per candidate; must not start threads."""
        return

    def trace(self, candidate: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        """In a process with the candidate's code: write its program for every size into `into`."""
        raise NotImplementedError

    def inspect(self, programs: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        """In a process without the candidate's code: write the findings that `screen` reports into `into`."""
        return

    def lower(self, programs: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        """In the same process: write the input of `build` into `into`. Not called if the build itself is traced."""
        return

    def explain_exception(self, error: Exception) -> CandidateError:
        """Translate an exception from `trace`, `inspect` or `lower` into a message for the generator."""
        return CandidateError("trace_error", f"{type(error).__name__}: {error}")


def check_tensor_types(backend: type[Backend] | Backend, tasks: Iterable[Task]) -> None:
    """Raise UserError for a task with tensors of a type that the backend does not support."""
    for task in tasks:
        tensors = (*task.signature.inputs, *task.signature.params, *task.signature.outputs)
        if not backend.takes_complex and any(tensor.dtype == "complex64" for tensor in tensors):
            raise UserError(f"task {task.id} has complex64 tensors, which this backend does not support; use the backend ascendc")
