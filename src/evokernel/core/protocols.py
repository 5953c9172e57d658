"""Interfaces of the six kinds of plug-ins. A plug-in implements one of them and imports only `core` (generators also `llm`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:  # every candidate process loads this module and must not wait for pydantic
    from concurrent.futures import Future

    from evokernel.core.errors import CandidateError
    from evokernel.core.records import (
        Attempt,
        Candidate,
        Context,
        Job,
        MemoryItem,
        MemoryKind,
        Outcome,
        Profile,
        Reply,
        Settings,
        Stage,
        Task,
    )
    from evokernel.core.state import State


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


class OptionalTool(NamedTuple):
    """A tool or device that a backend can use but does not require."""

    name: str
    is_available: bool
    detail: str
    """Version and location, or the consequence of its absence."""


class Backend(Protocol):
    """A kernel language with its toolchain and device.

    `screen`, `build` and `profile` run in the verifier's process; `load` runs in the candidate process.
    The constructor takes the backend's settings. `__init__.py` must import only light modules: every candidate process loads it.
    """

    def unavailable_reason(self) -> str | None:
        """Return why the backend cannot work on this machine and how to fix that; None if it can."""

    def versions(self) -> dict[str, str]:
        """Return the versions of the toolchain, for the run's records."""

    def optional_tools(self) -> Iterable[OptionalTool]:
        """Return the optional tools that `evokernel doctor` reports."""

    def entry_point(self, task: Task) -> str:
        """Return the declaration that a candidate must implement, in the backend's language."""

    def screen(self, task: Task, candidate: Candidate, workdir: Path) -> Iterable[str]:
        """Yield the rule violations in the candidate's source; none if it may be built."""

    def build(self, task: Task, candidate: Candidate, workdir: Path) -> None:
        """Build the candidate into `workdir`. Raises CandidateError with the compiler's first errors."""

    def load(self, workdir: Path) -> Kernel:
        """Load the kernel that `build` left in `workdir`."""

    def sanitizer(self) -> OptionalTool | None:
        """Return the tool that checks memory accesses; if it is missing, `detail` names the fix. None: every run checks them."""

    def build_sanitized(self, task: Task, candidate: Candidate, workdir: Path) -> dict[str, str]:
        """Build the candidate with the sanitizer into `workdir`; return environment variables for the process that loads it."""

    def parse_sanitizer_report(self, candidate: Candidate, workdir: Path, report: str) -> CandidateError | None:
        """Translate the sanitizer's stderr output into a message for the generator; None if it reports no error."""

    def profile(self, task: Task, outcome: Outcome) -> Profile | None:
        """Return what limits the latency of a timed kernel; None if that is unknown."""


class CallShape(NamedTuple):
    """Names, dtypes and shapes of the arguments of a kernel call at one size, without data."""

    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    scalars: tuple[tuple[str, str, float], ...]
    outputs: tuple[tuple[str, str, tuple[int, ...]], ...]


class TimingResult(NamedTuple):
    """Latencies that a backend estimated or measured itself, with those of the baselines from the same source."""

    clock: str
    """Source of the times, shown next to every number: `estimate (schedule)`."""
    samples_us: tuple[float, ...]
    """Latency samples in microseconds; a single one if the estimate is deterministic."""
    baseline_us: dict[str, tuple[float, ...]]
    """Samples of each available baseline in microseconds, paired one to one with `samples_us`."""
    profile: Profile
    incumbent_us: tuple[float, ...] = ()
    """Samples of the best kernel so far in microseconds, measured alternately and paired one to one; empty if it was not timed."""


@runtime_checkable
class LatencyEstimator(Protocol):
    """A Backend that estimates latencies and runs kernels in a slow simulation, so that the verifier checks fewer cases.

    `stderr` is the output of the process that runs the candidate. It is untrusted if that process contains the candidate's own code.
    """

    def sizes_for(self, candidate: Candidate) -> tuple[str, ...]:
        """Return the sizes at which the verifier runs this candidate."""

    def estimate_latency(self, task: Task, workdir: Path, stderr: str) -> TimingResult:
        """Return the latency of a built candidate. Raises CandidateError if it can be neither measured nor estimated."""

    def explain_failure(self, candidate: Candidate, workdir: Path, error: CandidateError) -> CandidateError:
        """Rewrite the error of a failed run into a message for the generator."""

    def preload(self, workdir: Path) -> None:
        """In the candidate process, before the sandbox closes: load libraries that need more permissions than a kernel has."""

    def partial_run_note(self, workdir: Path, stderr: str) -> str:
        """After a run: return how much of the kernel was executed, if not all of it; else an empty text."""


@runtime_checkable
class LatencyMeter(LatencyEstimator, Protocol):
    """A Backend that measures latencies itself, alternately with the best kernel so far; kernels run at full speed.

    `incumbent_workdir` is the folder in which the best kernel so far was built, including `programs`; None if there is none.
    """

    is_simulated: ClassVar[bool]
    """Whether kernels run in a slow simulation nevertheless."""

    def measure_latency(self, job: Job, workdir: Path, incumbent_workdir: Path | None) -> TimingResult:
        """Measure a built candidate and the job's baselines within the job's timing budget."""


@runtime_checkable
class ExternalSanitizer(Protocol):
    """A Backend whose `sanitizer` is an external program that checks an ordinary build."""

    def run_sanitizer(self, candidate: Candidate, workdir: Path, folder: Path, calls: Sequence[Arguments]) -> None:
        """Run these calls under the sanitizer. Raises CandidateError for its findings, ToolUnavailable if it does not work."""


@runtime_checkable
class PartialBackend(Protocol):
    """A Backend that works partly on a machine without the device."""

    can_check_values: ClassVar[bool]
    """Whether it can decide without the device if a kernel is correct."""

    def limitations(self) -> str | None:
        """Return which checks are impossible on this machine, and why; None if there are none."""


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


@runtime_checkable
class DeviceUser(Protocol):
    """A Backend whose kernels may run on a device of this machine, started from the candidate process."""

    def access(self, workdir: Path) -> DeviceAccess | None:
        """In the verifier's process, before it starts a candidate process: return the device permissions; None if no device is needed."""


@runtime_checkable
class TracedBackend(LatencyEstimator, Protocol):
    """A Backend that traces candidates: their own code runs once, in a process that ends before the verification.

    Other processes, without the candidate's code, then inspect, build, run and time the traced program. If `traces_build` is set, the
    backend builds first and traces the built program: `trace` receives the build folder, and `lower` is not called.
    """

    environment: ClassVar[dict[str, str]]
    """Environment variables of the processes that trace, inspect and run."""

    def load_libraries(self) -> None:
        """Load the libraries that every candidate needs, in a process that is then forked per candidate; must not start threads."""

    def trace(self, candidate: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        """In a process with the candidate's code: write its program for every size into `into`."""

    def inspect(self, programs: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        """In a process without the candidate's code: write the findings that `screen` reports into `into`."""

    def lower(self, programs: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        """In the same process: write the input of `build` into `into`."""

    def explain(self, error: Exception) -> CandidateError:
        """Translate an exception from `trace`, `inspect` or `lower` into a message for the generator."""


class Generator(Protocol):
    """Writes kernels (G). Random numbers come from `Random(f"{seed}/{state.next_id}")`, so that runs are reproducible."""

    def write(self, state: State, context: Context) -> Reply:
        """Write a candidate for the task."""

    def lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """Write a lesson from this attempt: text in `Reply.text`, usage in an empty candidate. None if the generator writes no lessons."""


class Policy(Protocol):
    """A search strategy (mu)."""

    def choose(self, state: State, memory: MemoryStore) -> Context:
        """Choose the stage, the start point and the items to show."""

    def learn(self, state: State, attempt: Attempt, memory: MemoryStore) -> None:
        """Learn from an attempt; `state` is the state before it. Policies store values in memory with `memory.update`."""


class SearchHit(NamedTuple):
    """A memory item with its similarity to the query."""

    item: MemoryItem
    similarity: float


class ItemValue(NamedTuple):
    """Value Q of an item at a stage, and its number of updates."""

    q: float = 0.0
    visits: int = 0


class MemoryStore(Protocol):
    """The memory M with its values. One writer; returned objects never change."""

    def add(self, items: Iterable[MemoryItem]) -> None:
        """Store items."""

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items with these ids in the same order; unknown ids are skipped."""

    def search(
        self,
        query: str,
        k: int,
        kinds: Sequence[MemoryKind] = (),
        *,
        task: str | None = None,
        bottleneck: str | None = None,
        feasible: bool | None = None,
    ) -> list[SearchHit]:
        """Return the k most similar items of this run's backend, most similar first, ties by age."""

    def values(self, ids: Sequence[str], stage: Stage, scope: str = "") -> dict[str, ItemValue]:
        """Return the value of each item; `ItemValue()` for items without updates. `scope` is "" (per item) or a family."""

    def update(self, attempt: str, stage: Stage, rewards: Mapping[str, float], alpha: float, scope: str = "") -> None:
        """Apply Q <- Q + alpha (r - Q) to each item (Eq. 4) and log it; a second call for the same attempt does nothing."""

    def close(self) -> None:
        """Close the connection to the bank."""


class Embedder(Protocol):
    """Maps text to unit vectors. Vectors of embedders with different `id` are never mixed."""

    id: str

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Return one unit row vector per text."""


class Executor(Protocol):
    """Runs verifications where the device is."""

    def submit(self, job: Job) -> Future[Outcome]:
        """Queue a verification. The future raises InfraError if no verifier could complete it."""

    def close(self) -> None:
        """Stop the workers."""


@runtime_checkable
class RemoteExecutor(Executor, Protocol):
    """An Executor that verifies on other machines, so that the run's own machine needs no toolchain."""

    def toolchain(self, backend: str, settings: Settings) -> dict[str, str]:
        """Return the versions of the remote toolchain, if it can be queried. Raises UserError if no machine there can verify."""
