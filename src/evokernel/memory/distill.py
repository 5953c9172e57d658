"""Turn an attempt into memory items: a trace (the kernel with its outcome) and an experience (a note on what the attempt taught)."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff

from evokernel.core import labels
from evokernel.core.memory_ids import make_note_id, make_trace_id
from evokernel.core.records import Attempt, MemoryItem, Stage, Task

DETAIL_CHARS = 1500  # of the verifier's feedback in a trace
BRIEF_CHARS = 500  # of the verifier's feedback in a note
CHANGE_LINES = 40
COMPARED_LINES = 400  # difflib is quadratic at worst
QUARANTINED_REASONS = frozenset({"forbidden", "impossible", "vetoed", "revoked"})
"""Failure reasons of kernels that tried to evade the task, or seem to have: memory keeps their failure, but not their code."""


def distill(task: Task, attempt: Attempt, earlier: Sequence[Attempt] = ()) -> list[MemoryItem]:
    """The trace and the note of an attempt; only the note if the attempt has no code or its code is quarantined.

    `earlier` are the task's previous attempts, oldest first.
    """
    outcome, failure = attempt.outcome, attempt.outcome.failure
    profile = outcome.profile
    trace = MemoryItem(
        id=attempt.memory_id,
        kind="trace",
        backend=attempt.candidate.backend,
        title=f"{task.family} · {task.id} · {outcome_headline(attempt)}",
        text=outcome_text(attempt, DETAIL_CHARS),
        key=task.source,
        task=task.id,
        family=task.family,
        feasible=outcome.feasible,
        reason=failure.reason if failure else "",
        latency_us=outcome.latency_us if outcome.feasible else None,
        speedup=outcome.speedup if outcome.feasible else None,
        bottleneck=profile.bottleneck if profile else "",
        source=f"{attempt.run}/{attempt.id}",
        parent=make_trace_id(attempt.run, attempt.start_point) if attempt.start_point else "",
        candidate=attempt.candidate.id if attempt.candidate.files else "",
        causes=tuple(dict.fromkeys(opportunity.cause for opportunity in profile.opportunities)) if profile else (),
        shown_items=tuple(ref.id for ref in attempt.shown_items if ref.role not in ("api", "nothing")),
    )
    note = {"id": make_note_id(attempt.memory_id), "kind": "experience", "text": lesson_text(attempt, earlier)}
    has_trace = attempt.candidate.files and not is_quarantined(attempt)
    traces = [trace.model_copy(update={"code": attempt.candidate.code})] if has_trace else []
    return [*traces, trace.model_copy(update=note)]


def is_quarantined(attempt: Attempt) -> bool:
    """Whether the attempt's code must never be shown as an example."""
    failure = attempt.outcome.failure
    return failure is not None and failure.reason in QUARANTINED_REASONS


def outcome_headline(attempt: Attempt) -> str:
    """The stage and outcome in a few words: `drafted: compile_error at build`."""
    failure, outcome = attempt.outcome.failure, attempt.outcome
    stage = "refined" if attempt.stage is Stage.REFINE else "drafted"
    if failure:
        return f"{stage}: {failure.reason or 'failed'} at {failure.gate}"
    return f"{stage}: correct" + (f", {latency_text(attempt)}" if outcome.latency_us else ", not timed")


def latency_text(attempt: Attempt) -> str:
    """The latency, marked if it is an estimate, and the speed-up if there is a baseline."""
    outcome = attempt.outcome
    if not outcome.latency_us:
        return "not timed"
    label = labels.estimate_note([outcome.clock])
    return f"{outcome.latency_us:.1f} us{f', {label}' if label else ''}{labels.speedup_phrase(outcome.speedup, outcome.baseline_name)}"


def outcome_text(attempt: Attempt, max_chars: int) -> str:
    """The verifier's feedback on a failure, or the latency and the bottleneck of a correct kernel."""
    failure, profile = attempt.outcome.failure, attempt.outcome.profile
    if failure:
        return f"Failed at {failure.gate} ({failure.reason}): {truncate(failure.detail, max_chars)}".rstrip(": ")
    bottleneck = f" Bound by {profile.bottleneck}: {truncate(profile.summary, max_chars)}" if profile else ""
    return f"Correct, {latency_text(attempt)}.{bottleneck}"


def lesson_text(attempt: Attempt, earlier: Sequence[Attempt]) -> str:
    """The approach, its outcome, the changes that improved it and the lesson of a model; only the outcome for quarantined code."""
    if is_quarantined(attempt):
        return outcome_text(attempt, BRIEF_CHARS)
    parts = []
    if attempt.candidate.notes and attempt.candidate.files:
        parts.append(f"Approach: {truncate(attempt.candidate.notes, BRIEF_CHARS)}")
    parts.append(outcome_text(attempt, BRIEF_CHARS))
    if attempt.outcome.tuning:
        parts.append(f"Tuned: {labels.format_setting(attempt.outcome.tuning.chosen)}.")
    start = next((a for a in earlier if a.id == attempt.start_point), None)
    last = earlier[-1] if earlier else None
    if attempt.outcome.feasible and start and start.outcome.latency_us and attempt.outcome.latency_us:
        ratio = start.outcome.latency_us / attempt.outcome.latency_us
        parts.append(
            f"Refined from a kernel of {start.outcome.latency_us:.1f} us: {ratio:.2f}x as fast. Changed lines:\n{diff_text(start, attempt)}"
        )
    elif attempt.outcome.feasible and last and last.outcome.failure:
        cause = last.outcome.failure
        changes = "" if is_quarantined(last) else f" Changed lines:\n{diff_text(last, attempt)}"
        parts.append(f"The previous attempt failed at {cause.gate} ({cause.reason}).{changes}")
    if attempt.lesson:
        parts.append(f"Lesson: {truncate(attempt.lesson, DETAIL_CHARS)}")
    return "\n".join(parts)


def diff_text(before: Attempt, after: Attempt) -> str:
    """The changed lines without context, cut off after CHANGE_LINES; a short notice if the files are too long to compare."""
    old, new = before.candidate.code.splitlines(), after.candidate.code.splitlines()
    if max(len(old), len(new)) > COMPARED_LINES:
        return "(too long to compare)"
    lines = [line for line in unified_diff(old, new, n=0, lineterm="") if not line.startswith(("---", "+++", "@@"))]
    diff = [truncate(line, 160) for line in lines[:CHANGE_LINES]]
    return "\n".join(diff + ([f"({len(lines) - CHANGE_LINES} more lines)"] if len(lines) > CHANGE_LINES else [])) or "(none)"


def truncate(text: str, max_chars: int) -> str:
    """The text, cut off with an ellipsis after `max_chars` characters."""
    text = text.strip()
    return text if len(text) <= max_chars else text[: max_chars - 2].rstrip() + " …"
