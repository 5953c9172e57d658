"""Runs as data sets in the formats that TRL reads: fine-tuning, preference pairs, and conversations with the verifier's feedback."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from evokernel.core.records import UNDECIDED_REASONS, Attempt, Task, Usage
from evokernel.core.run import Run
from evokernel.generators.prompting import LANGUAGES, build_first_prompt, shared_builder
from evokernel.generators.step_prompts import build_feedback_prompt
from evokernel.llm.render import fence
from evokernel.reports import metrics
from evokernel.reports.metrics import TaskResult
from evokernel.reports.trajectories import Row, read_artifact

Message = dict[str, str]
MIN_PREFERENCE_RATIO = 1.1
"""A correct kernel is preferred to another one if it is faster by at least this factor."""


def sft_rows(run: Run) -> Iterator[Row]:
    """Yield a conversation of two messages for each correct attempt: the prompt, and the reply with the kernel."""
    for result in collect(run):
        for attempt in correct_attempts(result):
            prompt = recorded_prompt(run, attempt) or build_first_prompt(result.task, attempt.candidate.backend)
            yield {"messages": [user(prompt), assistant(reply_text(run, attempt, result.task))], **origin(run, result.task, attempt)}


def preference_rows(run: Run) -> Iterator[Row]:
    """Yield pairs for the same prompt: the best kernel of a task, and each attempt that failed or is clearly slower.

    Attempts of one task were shown different contexts, so the prompt of a pair is the task alone.
    """
    for result in collect(run):
        best = result.best
        if best is None:
            continue
        chosen = reply_text(run, best, result.task)
        for other in result.attempts:
            if other.candidate.files and other.candidate.id != best.candidate.id and is_worse(result, other, best):
                yield {
                    "prompt": [user(build_first_prompt(result.task, best.candidate.backend))],
                    "chosen": [assistant(chosen)],
                    "rejected": [assistant(reply_text(run, other, result.task))],
                    **origin(run, result.task, best),
                    "rejected_attempt": other.id,
                    "rejected_reason": other.outcome.failure.reason if other.outcome.failure else "slower",
                }


def conversation_rows(run: Run) -> Iterator[Row]:
    """Yield one conversation for each solved task: the way to its best kernel, with the verifier's feedback between the replies."""
    for result in collect(run):
        if result.best is None:
            continue
        messages: list[Message] = []
        backend, last = result.best.candidate.backend, None
        for attempt in lineage(result.attempts, result.best):
            feedback = build_feedback_prompt(shared_builder(backend), result.task, last.outcome) if last else ""
            messages += [user(feedback or build_first_prompt(result.task, backend)), assistant(reply_text(run, attempt, result.task))]
            last = attempt
        yield {"messages": messages, **origin(run, result.task, result.best)}


FORMATS = {"sft": sft_rows, "preference": preference_rows, "multi-turn": conversation_rows}
"""The formats by name."""


def collect(run: Run) -> list[TaskResult]:
    """The results of the run's tasks."""
    return metrics.collect_results(run, run.attempts())


def correct_attempts(result: TaskResult) -> list[Attempt]:
    """Correct attempts with different kernels, without those that failed their re-evaluation."""
    kernels = {attempt.candidate.id: attempt for _, attempt in reversed(result.correct_attempts)}
    return list(reversed(kernels.values()))


def is_worse(result: TaskResult, other: Attempt, best: Attempt) -> bool:
    """Whether an attempt failed by its own fault, or is correct and clearly slower than the best one."""
    if not result.is_correct(other):
        return not (other.outcome.failure and other.outcome.failure.reason in UNDECIDED_REASONS)
    own, fastest = other.outcome.latency_us, best.outcome.latency_us
    return bool(own and fastest and own / fastest >= MIN_PREFERENCE_RATIO)


def lineage(attempts: Sequence[Attempt], best: Attempt) -> list[Attempt]:
    """The start points of the best kernel back to the first draft, and before it the drafts that failed."""
    by_id = {attempt.id: attempt for attempt in attempts}
    chain = [best]
    while (parent := by_id.get(chain[0].start_point or "")) and parent not in chain:
        chain.insert(0, parent)
    earlier = [one for one in attempts[: attempts.index(chain[0])] if one.candidate.files and not one.outcome.feasible]
    return [*earlier, *chain]


def origin(run: Run, task: Task, attempt: Attempt) -> Row:
    """Where a row comes from, to filter by and to keep held-out tasks out."""
    outcome = attempt.outcome
    return {
        "task": task.id,
        "family": task.family,
        "backend": attempt.candidate.backend,
        "run": run.config.id,
        "attempt": attempt.id,
        "generator": run.config.plugin_name("generator"),
        "model": attempt.usage.model or None,
        "latency_us": outcome.latency_us,
        "speedup": outcome.speedup,
        "clock": outcome.clock or None,
        "is_recorded_reply": read_artifact(run, attempt, "reply.md") is not None,
    }


def recorded_prompt(run: Run, attempt: Attempt) -> str | None:
    """The prompt that the generator sent; None if it sent none."""
    return read_artifact(run, attempt, "reply.prompt.md")


def reply_text(run: Run, attempt: Attempt, task: Task) -> str:
    """The reply that the generator gave, or one in the same layout if it gave none or its kernel was changed by repairs or tuning."""
    text = read_artifact(run, attempt, "reply.md")
    builder = shared_builder(attempt.candidate.backend)
    if text and builder.parse_candidate(text, task, Usage()).files == attempt.candidate.files:
        return text
    blocks = [
        fence(code, f"{LANGUAGES.get(Path(name).suffix, Path(name).suffix.lstrip('.'))} {name}")
        for name, code in attempt.candidate.files.items()
    ]
    return "\n\n".join([*([attempt.candidate.notes] if attempt.candidate.notes else []), *blocks])


def user(text: str) -> Message:
    """A message to the model."""
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    """A message of the model."""
    return {"role": "assistant", "content": text}
