"""Results of tools as an agent reads them: a short text, and the same facts as structured content."""

from __future__ import annotations

from typing import Any, NamedTuple

from evokernel.core.agent_tools import (
    BudgetStatus,
    ItemSummary,
    KernelResult,
    MemoryHits,
    OpenedItem,
    Submission,
    TaskDescription,
    TaskList,
)
from evokernel.core.records import Outcome, Record
from evokernel.llm.render import fence
from evokernel.reports import formatting
from evokernel.reports.opportunities import annotate_source, opportunity_table
from evokernel.reports.outcome_report import measurement_rows, outcome_figures
from evokernel.reports.task_report import task_record

MAX_DETAIL_CHARS = 4000


class ToolResult(NamedTuple):
    """The answer to one call."""

    text: str
    data: dict[str, Any]
    is_error: bool = False


def render_result(tool: str, record: Record) -> ToolResult:
    """The answer that a record gives; of a verified kernel, `profile` shows the causes of its latency."""
    match record:
        case TaskList():
            return render_tasks(record)
        case TaskDescription():
            return render_task(record)
        case KernelResult():
            return render_profile(record) if tool == "profile" else render_kernel(record)
        case MemoryHits():
            return ToolResult(format_items(record.hits) or "nothing found", record.model_dump(mode="json"))
        case OpenedItem():
            return render_item(record)
        case Submission():
            return render_submission(record)
        case BudgetStatus():
            return ToolResult(format_budget(record), record.model_dump(mode="json"))
    raise TypeError(f"a tool does not return {type(record).__name__}")


def render_error(message: str) -> ToolResult:
    """A refusal: the agent reads what to do instead."""
    return ToolResult(message, {"error": message}, is_error=True)


def render_tasks(record: TaskList) -> ToolResult:
    """One line for each task."""
    lines = [f"{task.id}  level {task.level}, {task.category}" for task in record.tasks]
    if record.total > len(record.tasks):
        lines.append(f"and {record.total - len(record.tasks)} more: name a suite")
    return ToolResult("\n".join(lines), record.model_dump(mode="json"))


def render_task(record: TaskDescription) -> ToolResult:
    """What a prompt states about the task, and the cards that fit it."""
    cards = f"\n## Memory items that fit\n\n{format_items(record.cards)}\n" if record.cards else ""
    text = f"# {record.task.id}, backend {record.backend}: write {record.file}\n\n{record.text}{cards}"
    data = task_record(record.task, record.backend) | {
        "file": record.file,
        "cards": [card.model_dump(mode="json") for card in record.cards],
    }
    return ToolResult(text, data)


def render_kernel(record: KernelResult) -> ToolResult:
    """The gates, and the figures of a kernel that was timed."""
    outcome = record.outcome
    lines = [f"kernel {record.candidate.id} for {record.task}: {describe_outcome(outcome)}"]
    lines += [f"gate {gate.gate}: {'passed' if gate.passed else f'failed ({gate.reason})'}" for gate in outcome.gates]
    if outcome.failure:
        lines += ["", outcome.failure.detail[:MAX_DETAIL_CHARS]]
    lines += [f"{label}: {text}" for label, text in measurement_rows(outcome) if label not in outcome.versions]
    return ToolResult("\n".join(lines), kernel_data(record))


def render_profile(record: KernelResult) -> ToolResult:
    """The causes of the latency, largest gain first, with their lines."""
    outcome = record.outcome
    if outcome.profile is None:
        why = "it was not timed" if outcome.latency_us is None else "the backend explains no latency"
        return ToolResult(f"kernel {record.candidate.id} has no profile, because {why}", kernel_data(record))
    lines = [f"kernel {record.candidate.id}: bound by {outcome.profile.bottleneck}. {outcome.profile.summary}"]
    if table := opportunity_table(outcome):
        names = [column.name for column in table.columns]
        lines += ["; ".join(f"{name}: {cell}" for name, cell in zip(names, row) if cell) for row in table.format_rows()]
        lines.append(table.note)
    for name, source in annotate_source(record.candidate.files, outcome).items():
        lines += [f"{name}:{line.number}: {line.text.strip()}" for line in source if line.gain_us is not None]
    return ToolResult("\n".join(lines), kernel_data(record))


def render_item(record: OpenedItem) -> ToolResult:
    """Title, text and code of a memory item. Fences mark what is reference material and no instruction."""
    item = record.item
    parts = [f"# {item.title} ({item.id})"]
    parts += [fence(item.text, "markdown")] if item.text.strip() else []
    parts += [fence(item.code)] if item.code.strip() else []
    fields = {"id", "kind", "backend", "title", "text", "code", "task", "family", "feasible", "latency_us", "speedup", "bottleneck"}
    return ToolResult("\n\n".join(parts), item.model_dump(mode="json", include=fields) | {"q": record.q})


def render_submission(record: Submission) -> ToolResult:
    """What was submitted."""
    outcome = f"; {describe_outcome(record.outcome)}" if record.outcome else ""
    data = record.model_dump(mode="json", exclude={"outcome"}) | {"feasible": record.outcome.feasible if record.outcome else None}
    return ToolResult(f"submitted kernel {record.candidate} for {record.task}: {record.message}{outcome}", data)


def kernel_data(record: KernelResult) -> dict[str, Any]:
    """The outcome for programs: gates and figures, without samples."""
    gates = [gate.model_dump(mode="json") for gate in record.outcome.gates]
    return {"task": record.task, **outcome_figures(record.candidate, record.outcome), "gates": gates}


def describe_outcome(outcome: Outcome) -> str:
    """The outcome in a few words."""
    if outcome.failure:
        return f"failed at gate {outcome.failure.gate} ({outcome.failure.reason})"
    speed = f", {formatting.format_speed(outcome.speedup)} than PyTorch" if outcome.speedup else ""
    return f"correct, {formatting.format_latency(outcome.latency_us)}{speed}" if outcome.latency_us else "correct, not timed"


def format_items(items: tuple[ItemSummary, ...]) -> str:
    """One line for each item: its id, to open it with, kind and title."""
    return "\n".join(
        f"{item.id}  [{item.kind}] {item.title}"
        + (f" (similarity {item.similarity:.2f})" if item.similarity is not None else "")
        + (f" (Q {item.q:+.2f})" if item.q is not None else "")
        for item in items
    )


def format_budget(status: BudgetStatus) -> str:
    """`3 of 40 calls, 1 of 5 verifications, 12.0 of 900 s used`."""
    parts = [
        (f"{status.calls}", status.max_calls, "calls"),
        (f"{status.verifications}", status.max_verifications, "verifications"),
        (f"{status.seconds:.1f}", status.max_seconds, "s"),
    ]
    return ", ".join(f"{used} {f'of {limit:g} ' if limit is not None else ''}{unit}" for used, limit, unit in parts) + " used"
