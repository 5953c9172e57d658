"""Interfaces of five kinds of plug-ins; the sixth, the backend, is in `backend.py`. Plug-ins import only `core` (generators also `llm`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:  # every candidate process loads this module and must not wait for pydantic
    from concurrent.futures import Future

    from evokernel.core.records import (
        Attempt,
        Candidate,
        Context,
        GateResult,
        Job,
        MemoryItem,
        MemoryKind,
        Outcome,
        Reply,
        Settings,
        Stage,
        Task,
    )
    from evokernel.core.state import State


class Generator(Protocol):
    """Writes kernels (G). Random numbers come from `Random(f"{seed}/{state.next_id}")`, so that runs are reproducible."""

    def write(self, state: State, context: Context) -> Reply:
        """Write a candidate for the task."""

    def lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """Write a lesson from this attempt: text in `Reply.text`, usage in an empty candidate. None if the generator writes no lessons."""


@runtime_checkable
class SteppedGenerator(Generator, Protocol):
    """A Generator with optional steps around the writing of a candidate; its settings say which of them it takes."""

    steps: tuple[str, ...]
    """Names of the steps before writing, in order: `plan`, `critic`."""

    def take_step(self, name: str, state: State, context: Context) -> Reply | None:
        """Take a step before writing, with its result in `Reply.step`. None if there is nothing to base it on."""

    def repair(self, state: State, context: Context, candidate: Candidate, outcome: Outcome) -> Reply | None:
        """Correct a candidate that a compiler or a rule refused; None if all repairs of the attempt (in `context.steps`) are used."""


@runtime_checkable
class RewindingGenerator(Generator, Protocol):
    """A Generator that can remove one optimisation at a time from a fast kernel, which makes it slower and keeps it correct."""

    def count_optimisations(self, task: Task, candidate: Candidate) -> int | None:
        """Return how many optimisations of the kernel it can remove; None if it finds them itself, one request at a time."""

    def rewind(self, state: State, context: Context) -> Reply:
        """Write the start point without one optimisation, another one in each attempt; `Candidate.notes` names it."""


class AttemptTools(NamedTuple):
    """What a generator may use while it writes the candidate of one attempt."""

    verify: Callable[[Candidate, int], Outcome]
    """Verifies a kernel with the run's executor; the number of the trial decides the inputs. Raises InfraError."""
    memory: MemoryReader
    """Memory as it was when the context was chosen; any thread may read it."""


@runtime_checkable
class ToolUsingGenerator(Generator, Protocol):
    """A Generator that verifies kernels and reads memory while it writes; `Reply.opened_items` and `Reply.tool_use` say what it did."""

    tools: Callable[[State], AttemptTools] | None
    """Returns the tools of the next attempt on a task. The run sets it."""


@runtime_checkable
class VariantGenerator(Generator, Protocol):
    """A Generator whose prompts have variants: `Context.prompt_variants` chooses them, `Reply.prompt_variants` says which were shown."""

    prompt_variants: Mapping[str, tuple[str, ...]]
    """Names of the variants of each section, the default first; empty if its settings use the defaults only."""


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


class MemoryReader(Protocol):
    """Reads the memory M with its values; returned objects never change."""

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
        """Return the value of each item; `ItemValue()` for items without updates. `scope` is "" (per item), a family or `cause:CAUSE`."""

    def scoped_values(self, id: str, stage: Stage) -> dict[str, ItemValue]:
        """Return the values of one item in every scope in which it was updated, in order of the scopes."""


class MemoryStore(MemoryReader, Protocol):
    """The memory M with its values. One writer; returned objects never change."""

    def add(self, items: Iterable[MemoryItem]) -> None:
        """Store items."""

    def update(self, attempt: str, stage: Stage, rewards: Mapping[str, float], alpha: float, scope: str = "") -> None:
        """Apply Q <- Q + alpha (r - Q) to each item (Eq. 4) and log it; a second call for the same attempt does nothing."""

    def freeze(self) -> MemoryReader:
        """Return the memory as it is now, for readers on other threads; later changes do not show in it."""

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


GateListener = Callable[["Job", str, "GateResult | None"], None]
"""Called from any thread with a job and the name of a gate: when the gate starts, with None, and when it ends, with its result."""


@runtime_checkable
class ReportingExecutor(Executor, Protocol):
    """An Executor that reports the gates of jobs with `reports_gates` while they run."""

    on_gate: GateListener | None


@runtime_checkable
class RemoteExecutor(Executor, Protocol):
    """An Executor that verifies on other machines, so that the run's own machine needs no toolchain."""

    def toolchain(self, backend: str, settings: Settings) -> dict[str, str]:
        """Return the versions of the remote toolchain, if it can be queried. Raises UserError if no machine there can verify."""
