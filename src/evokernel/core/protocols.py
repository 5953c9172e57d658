"""The six seams. A plug-in implements one of these and imports nothing else of ours but `core` (a generator: also `llm`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:  # the child loads this module for every candidate and must not wait for pydantic
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
        State,
        Task,
    )


class Array(NamedTuple):
    """A contiguous tensor in memory the judge shares with the child."""

    name: str
    dtype: str
    """As in `Tensor.dtype`; `data` holds float16 natively and bfloat16 as uint16."""
    data: np.ndarray


class Arguments(NamedTuple):
    """One call of a kernel, in the signature's order. Outputs are poisoned before the call."""

    inputs: tuple[Array, ...]
    """Inputs, then parameters and buffers; mapped read-only."""
    scalars: tuple[tuple[str, str, float], ...]
    """Name, kind (`int`, `float`, `bool`), value."""
    outputs: tuple[Array, ...]


class Kernel(Protocol):
    """A built candidate, alive in a process of its own."""

    def bind(self, arguments: Arguments) -> Callable[[], None]:
        """A function that runs the kernel once on these arguments, blocking until its outputs are written."""


class OptionalTool(NamedTuple):
    """Something a backend looks for besides its toolchain, and can do without, such as the device itself."""

    name: str
    is_available: bool
    detail: str
    """What was found, or what is done without it."""


class Backend(Protocol):
    """`screen`, `build`, `profile` run with the judge; `load` runs with the candidate, in the child.

    The constructor takes the backend's settings. `__init__.py` must import nothing heavy: the child loads it for every candidate.
    """

    def unavailable_reason(self) -> str | None:
        """Why it cannot work here, in words that name the fix; None when it can."""

    def versions(self) -> dict[str, str]:
        """The toolchain, for the record."""

    def optional_tools(self) -> Iterable[OptionalTool]:
        """What `evokernel doctor` says besides, where the backend can work."""

    def entry_point(self, task: Task) -> str:
        """The declaration a candidate must implement, in the backend's own terms."""

    def screen(self, task: Task, candidate: Candidate, workdir: Path) -> Iterable[str]:
        """What is dishonest or out of bounds about the candidate; nothing when it may be built."""

    def build(self, task: Task, candidate: Candidate, workdir: Path) -> None:
        """Leaves in `workdir` what `load` needs. Raises CandidateError with the compiler's first errors."""

    def load(self, workdir: Path) -> Kernel: ...

    def sanitizer(self) -> OptionalTool | None:
        """What can watch a kernel's memory accesses; where it is not found, `detail` names the fix. None: running a kernel watches them."""

    def build_sanitized(self, task: Task, candidate: Candidate, workdir: Path) -> dict[str, str]:
        """Leaves in `workdir` what `load` needs for the kernel to be watched; gives variables for the process that loads it."""

    def parse_sanitizer_report(self, candidate: Candidate, workdir: Path, report: str) -> CandidateError | None:
        """What the watched process wrote to stderr, in words for whoever wrote the kernel; None when that is no finding."""

    def profile(self, task: Task, outcome: Outcome) -> Profile | None:
        """What bounds a timed kernel."""


class CallShape(NamedTuple):
    """What a kernel is called with at a size: names, types and shapes, but no data."""

    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    scalars: tuple[tuple[str, str, float], ...]
    outputs: tuple[tuple[str, str, tuple[int, ...]], ...]


class TimingResult(NamedTuple):
    """Latencies a backend found for itself, computed or measured, held against baselines found in the same way."""

    clock: str
    """What they are, in words that go wherever a figure goes: `estimate (schedule)`."""
    samples_us: tuple[float, ...]
    """One where chance plays no part."""
    baseline_us: dict[str, tuple[float, ...]]
    """Paired with the samples one to one; without those that could not be found."""
    profile: Profile
    incumbent_us: tuple[float, ...] = ()
    """Of the best kernel so far, taken in turn and paired one to one; none where it was not timed."""


@runtime_checkable
class LatencyEstimator(Protocol):
    """A Backend that finds latencies for itself, and whose kernels run in simulation: slowly, so that fewer cases are tried.

    `said` is what the process that runs the candidate wrote to stderr. Where that process holds the candidate's own code, so may the text.
    """

    def sizes_for(self, candidate: Candidate) -> tuple[str, ...]:
        """The sizes at which this candidate is run."""

    def estimate_latency(self, task: Task, workdir: Path, said: str) -> TimingResult:
        """What a built candidate takes. Raises CandidateError when that can be neither measured nor computed."""

    def explain_failure(self, candidate: Candidate, workdir: Path, error: CandidateError) -> CandidateError:
        """A failed run in words for whoever wrote the kernel."""

    def preload(self, workdir: Path) -> None:
        """In the child, before it is closed in: loads what needs more of the system than a kernel may. Nothing of the candidate's."""

    def partial_run_note(self, workdir: Path, said: str) -> str:
        """After a run, of what was written during it: how much of the kernel was run, when that was not all of it; else nothing."""


@runtime_checkable
class LatencyMeter(LatencyEstimator, Protocol):
    """A Backend that finds latencies for itself by measuring: the best kernel so far takes part, and kernels run as fast as they are.

    `beside` is the folder in which that kernel was built, `programs` and all; None without one.
    """

    is_simulated: ClassVar[bool]
    """Whether kernels run slowly after all."""

    def measure_latency(self, job: Job, workdir: Path, beside: Path | None) -> TimingResult:
        """What a built candidate takes, with the job's baselines in the job's time."""


@runtime_checkable
class ExternalSanitizer(Protocol):
    """A Backend whose `sanitizer`, where it finds one, is a program that watches a built candidate from outside."""

    def run_sanitizer(self, candidate: Candidate, workdir: Path, folder: Path, calls: Sequence[Arguments]) -> None:
        """Runs these calls under it. Raises CandidateError for what it finds, CannotRun where it does not work."""


@runtime_checkable
class PartialBackend(Protocol):
    """A Backend that can do a part of its work where there is no device."""

    can_check_values: ClassVar[bool]
    """Whether that part tells right kernels from wrong ones."""

    def limitations(self) -> str | None:
        """What cannot be judged here, and why; None where everything can."""


class DeviceAccess(NamedTuple):
    """What a process with a candidate needs of a device and its vendor's runtime, beyond what every kernel may use."""

    devices: tuple[str, ...]
    """Device files it reads, writes and speaks to."""
    readable: tuple[str, ...]
    """Folders and files of the runtime."""
    variables: dict[str, str]
    """For its environment."""
    holds_candidate: bool = True
    """Whether code of the candidate's runs on the processor there. Where only its device code is left, nothing in it can ask the system for
    anything, and the vendor's runtime may."""


@runtime_checkable
class DeviceUser(Protocol):
    """A Backend whose kernels may run on a device of this machine, out of the child."""

    def access(self, workdir: Path) -> DeviceAccess | None:
        """With the judge, before a child is started for what was built there; None when it needs no device."""


@runtime_checkable
class TracedBackend(LatencyEstimator, Protocol):
    """A Backend whose candidates are programs to be traced: their own code runs once, in a process that is gone before anything is judged.

    What is traced is then inspected, built, run and priced where none of the candidate's code ever was. Where `traces_build` is set, it is
    built first, and what is traced is a program of the built one: `trace` is given the folder it was built in, and `lower` is not called.
    """

    environment: ClassVar[dict[str, str]]
    """For the processes that trace, inspect and run."""

    def load_libraries(self) -> None:
        """Loads whatever every candidate needs, in a process that is then copied for each; starts no thread."""

    def trace(self, candidate: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        """In a process with the candidate: its program for every size, as files in `into`."""

    def inspect(self, programs: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        """In a process without it: leaves in `into` what `screen` reports."""

    def lower(self, programs: Path, calls: Mapping[str, CallShape], into: Path) -> None:
        """In the same process: leaves in `into` what `build` compiles."""

    def explain(self, error: Exception) -> CandidateError:
        """What an exception out of one of these three means for whoever wrote the candidate."""


class Generator(Protocol):
    """Writes kernels (G). Chance comes from `Random(f"{seed}/{state.next_id}")`, so that equal runs are equal."""

    def write(self, state: State, context: Context) -> Reply: ...

    def lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """What this attempt teaches, in `Reply.text` (with its usage in an empty candidate); None when it writes no lessons."""


class Policy(Protocol):
    """A search strategy (mu)."""

    def choose(self, state: State, memory: MemoryStore) -> Context: ...

    def learn(self, state: State, attempt: Attempt, memory: MemoryStore) -> None:
        """`state` is as it was when the attempt was chosen. Values are kept in memory through `memory.update`."""


class SearchHit(NamedTuple):
    """A search hit."""

    item: MemoryItem
    similarity: float


class ItemValue(NamedTuple):
    """What an item is worth at a stage, and how often that was learned."""

    q: float = 0.0
    visits: int = 0


class MemoryStore(Protocol):
    """M with its values. One writer; what it returns is never changed under the reader."""

    def add(self, items: Iterable[MemoryItem]) -> None: ...

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """The items that exist, in the order asked for."""

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
        """The k nearest items of this run's backend, nearest first, ties by age."""

    def values(self, ids: Sequence[str], stage: Stage, scope: str = "") -> dict[str, ItemValue]:
        """Q of each item; `Value()` for those never learned. `scope` is "" (per item) or a family."""

    def update(self, attempt: str, stage: Stage, rewards: Mapping[str, float], alpha: float, scope: str = "") -> None:
        """Q <- Q + alpha (r - Q) for each item (Eq. 4), with a ledger row each; a second call for the same attempt does nothing."""

    def close(self) -> None: ...


class Embedder(Protocol):
    """Text to unit vectors. Vectors of embedders with different `id` are never mixed."""

    id: str

    def embed(self, texts: Sequence[str]) -> np.ndarray: ...


class Executor(Protocol):
    """Takes jobs to wherever the device is."""

    def submit(self, job: Job) -> Future[Outcome]:
        """The future raises InfraError when nobody could judge the candidate."""

    def close(self) -> None: ...


@runtime_checkable
class RemoteExecutor(Executor, Protocol):
    """An Executor whose judges are elsewhere: what the machine of the run has does not matter."""

    def toolchain(self, backend: str, settings: Settings) -> dict[str, str]:
        """What kernels are judged with there, as far as it can be asked. Raises UserError when nobody there can judge."""
