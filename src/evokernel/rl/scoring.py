"""Verifies the kernels in completions of a model, many at a time, and gives each a reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple

from evokernel.app.verification_pool import VerificationPool
from evokernel.core.config import resolve_config
from evokernel.core.errors import InfraError, UserError
from evokernel.core.labels import format_count
from evokernel.core.plugins import find_plugin
from evokernel.core.records import Candidate, GateResult, Outcome, Task, Usage
from evokernel.generators.prompting import shared_builder
from evokernel.rl.reward import compute_reward

Completion = str | Sequence[Mapping[str, Any]]
"""What a model wrote: a text, or messages of a conversation."""


class ScoredCompletion(NamedTuple):
    """A completion, the kernel in it, and what the verifier says about it."""

    task: Task
    candidate: Candidate
    reward: float | None
    """None if the infrastructure failed: trainers leave such a sample out."""
    outcome: Outcome | None
    """None if the infrastructure failed."""
    error: str = ""
    """Why there is no outcome."""

    def __repr__(self) -> str:
        """`ScoredCompletion(starter/relu, reward 1.09, correct, 12.3 µs)`, short enough for logs of whole batches."""
        reward = "none" if self.reward is None else f"{self.reward:.3g}"
        return f"ScoredCompletion({self.task.id}, reward {reward}, {self.result})"

    @property
    def result(self) -> str:
        """The result in a few words: `correct, 12.3 µs`, the reason of the failed gate, or why there is no outcome."""
        if self.outcome is None:
            return self.error
        if self.outcome.failure:
            return self.outcome.failure.reason
        return "correct, not timed" if self.outcome.latency_us is None else f"correct, {self.outcome.latency_us:.3g} µs"


class CompletionScorer:
    """Verifies completions with workers that stay warm. `settings` are those of a verification, such as {"timeout_s": 20}.

    Thread-safe. Nothing is remembered between calls. Close it, or use it in a `with` statement.
    """

    def __init__(
        self, backend: str = "cpp", *, workers: int = 0, size: str | None = None, settings: Mapping[str, Any] | None = None
    ) -> None:
        find_plugin("backend", backend)  # a wrong name is refused here, not in the first batch
        self.backend, self.size = backend, size
        self.workers, self.settings = workers, dict(settings or {})
        self.lock = Lock()
        self.opened_pool: VerificationPool | None = None

    def __enter__(self) -> CompletionScorer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    @property
    def pool(self) -> VerificationPool:
        """The workers, started at the first verification."""
        with self.lock:
            if self.opened_pool is None:
                self.opened_pool = VerificationPool(self.workers, self.settings)
            return self.opened_pool

    def close(self) -> None:
        """Stop the workers."""
        with self.lock:
            if self.opened_pool:
                self.opened_pool.close()
            self.opened_pool = None

    def score(self, completions: Sequence[Completion], tasks: Sequence[str], backends: Sequence[str | None]) -> list[ScoredCompletion]:
        """Verify all completions in parallel; equal kernels for one task are verified once.

        Raises UserError for an unknown task, and for columns that do not have one value for each completion.
        """
        for name, column in (("task", tasks), ("backend", backends)):
            if isinstance(column, str) or len(column) != len(completions):
                count = f"the text '{column}'" if isinstance(column, str) else format_count(len(column), "value")
                completion_count = format_count(len(completions), "completion")
                raise UserError(f"the column '{name}' has {count} for {completion_count}. Give a list with one value for each.")
        parsed = [self.parse(*sample) for sample in zip(completions, tasks, backends, strict=True)]
        futures: dict[tuple[str, str], Future[Outcome]] = {}
        for task, candidate in parsed:
            key = (task.id, candidate.id)
            if has_code(candidate) and key not in futures:
                futures[key] = self.pool.submit(self.pool.plan(candidate, task, size=self.size))
        return [score_candidate(task, candidate, futures.get((task.id, candidate.id))) for task, candidate in parsed]

    def parse(self, completion: Completion, task: str, backend: str | None) -> tuple[Task, Candidate]:
        """Load the task and read the kernel in a completion, as a run reads the reply of a model."""
        builder = shared_builder(backend or self.backend)
        loaded = self.load_task(task, builder.backend)
        return loaded, builder.parse_candidate(completion_text(completion), loaded, Usage())

    def load_task(self, task: str, backend: str) -> Task:
        """Load a task at the size at which kernels of the backend are timed; loaded once."""
        settings = self.settings | {"backend": self.pool.backend_settings(backend)}
        return self.pool.load_task(task, resolve_config(None, base=settings, size=self.size))


def has_code(candidate: Candidate) -> bool:
    """Whether a reply contained a kernel."""
    return any(text.strip() for text in candidate.files.values())


def score_candidate(task: Task, candidate: Candidate, future: Future[Outcome] | None) -> ScoredCompletion:
    """Wait for the outcome of a kernel; without a future the reply contained none."""
    if future is None:
        detail = candidate.notes or "the reply contains no usable source file"
        outcome = Outcome(gates=(GateResult(gate="write", passed=False, reason="no_code", detail=detail),))
        return ScoredCompletion(task, candidate, compute_reward(outcome), outcome)
    try:
        outcome = future.result()
    except InfraError as error:
        return ScoredCompletion(task, candidate, None, None, str(error))
    return ScoredCompletion(task, candidate, compute_reward(outcome), outcome)


def completion_text(completion: Completion) -> str:
    """The text of a completion: itself, or the last message of the assistant."""
    if isinstance(completion, str):
        return completion
    replies = [message for message in completion if message.get("role") == "assistant"]
    content = replies[-1].get("content") if replies else ""
    if isinstance(content, str) or content is None:
        return content or ""
    return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
