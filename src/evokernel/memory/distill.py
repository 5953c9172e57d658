"""What a run remembers of an attempt: its kernel with the verdict (trace), and what it taught (experience)."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff

from evokernel.core import labels
from evokernel.core.records import Attempt, MemoryItem, Stage, Task

DETAIL = 1500  # characters of the verifier's feedback kept with a trace
BRIEF = 500  # and with a note
CHANGE_LINES = 40
COMPARED_LINES = 400  # difflib is quadratic at worst
QUARANTINED = frozenset({"forbidden", "impossible", "vetoed", "revoked"})
"""Reasons of kernels that tried, or seem, to get around the work: that they failed is remembered, how they did it is not."""


def distill(task: Task, attempt: Attempt, earlier: Sequence[Attempt] = ()) -> list[MemoryItem]:
    """A trace and a note; only the note when there is no code, or none to show. `earlier`: the task's attempts before, oldest first."""
    outcome, failure = attempt.outcome, attempt.outcome.failure
    profile = outcome.profile
    shared = MemoryItem(
        id=attempt.memory_id,
        kind="trace",
        backend=attempt.candidate.backend,
        title=f"{task.family} · {task.id} · {headline(attempt)}",
        text=verdict(attempt, DETAIL),
        key=task.source,
        task=task.id,
        family=task.family,
        feasible=outcome.feasible,
        reason=failure.reason if failure else "",
        latency_us=outcome.latency_us if outcome.feasible else None,
        speedup=outcome.speedup if outcome.feasible else None,
        bottleneck=profile.bottleneck if profile else "",
        source=f"{attempt.run}/{attempt.id}",
        parent=f"{attempt.run}:{attempt.start_point}" if attempt.start_point else "",
        candidate=attempt.candidate.id if attempt.candidate.files else "",
        shown_items=tuple(ref.id for ref in attempt.shown_items if ref.role != "api"),
    )
    note = {"id": note_id(attempt.memory_id), "kind": "experience", "text": lesson(attempt, earlier)}
    has_trace = attempt.candidate.files and not is_quarantined(attempt)
    traces = [shared.model_copy(update={"code": attempt.candidate.code})] if has_trace else []
    return [*traces, shared.model_copy(update=note)]


def note_id(trace: str) -> str:
    """Id of the experience that goes with a trace."""
    return f"{trace}/note"


def is_quarantined(attempt: Attempt) -> bool:
    """Whether its code is never to be shown as an example."""
    failure = attempt.outcome.failure
    return failure is not None and failure.reason in QUARANTINED


def headline(attempt: Attempt) -> str:
    """How it ended, in a few words."""
    failure, outcome = attempt.outcome.failure, attempt.outcome
    made = "refined" if attempt.stage is Stage.REFINE else "drafted"
    if failure:
        return f"{made}: {failure.reason or 'failed'} at {failure.gate}"
    return f"{made}: correct" + (f", {speed(attempt)}" if outcome.latency_us else ", not timed")


def speed(attempt: Attempt) -> str:
    """Latency, what it is where no clock took it, and the speed-up where there is a baseline."""
    outcome = attempt.outcome
    if not outcome.latency_us:
        return "not timed"
    label = labels.estimate_note([outcome.clock])
    return f"{outcome.latency_us:.1f} us{f', {label}' if label else ''}{labels.speedup_phrase(outcome.speedup, outcome.baseline_name)}"


def verdict(attempt: Attempt, room: int) -> str:
    """The verifier's words, or the timing and what bounds it."""
    failure, profile = attempt.outcome.failure, attempt.outcome.profile
    if failure:
        return f"Failed at {failure.gate} ({failure.reason}): {cut(failure.detail, room)}".rstrip(": ")
    bound = f" Bound by {profile.bottleneck}: {cut(profile.summary, room)}" if profile else ""
    return f"Correct, {speed(attempt)}.{bound}"


def lesson(attempt: Attempt, earlier: Sequence[Attempt]) -> str:
    """What was tried, how it went, what changed for the better, and the lesson a model drew from it; only the verdict in quarantine."""
    if is_quarantined(attempt):
        return verdict(attempt, BRIEF)
    parts = []
    if attempt.candidate.notes and attempt.candidate.files:
        parts.append(f"Tried: {cut(attempt.candidate.notes, BRIEF)}")
    parts.append(verdict(attempt, BRIEF))
    start = next((a for a in earlier if a.id == attempt.start_point), None)
    last = earlier[-1] if earlier else None
    if attempt.outcome.feasible and start and start.outcome.latency_us and attempt.outcome.latency_us:
        ratio = start.outcome.latency_us / attempt.outcome.latency_us
        parts.append(f"Refined from {start.outcome.latency_us:.1f} us: {ratio:.2f}x as fast. What changed:\n{change(start, attempt)}")
    elif attempt.outcome.feasible and last and last.outcome.failure:
        cause = last.outcome.failure
        changed = "" if is_quarantined(last) else f" What changed:\n{change(last, attempt)}"
        parts.append(f"The attempt before failed at {cause.gate} ({cause.reason}).{changed}")
    if attempt.lesson:
        parts.append(f"Lesson: {cut(attempt.lesson, DETAIL)}")
    return "\n".join(parts)


def change(before: Attempt, after: Attempt) -> str:
    """The lines that differ, without context; a summary when they are too many to teach anything."""
    old, new = before.candidate.code.splitlines(), after.candidate.code.splitlines()
    if max(len(old), len(new)) > COMPARED_LINES:
        return "(rewritten; too long to compare)"
    lines = [line for line in unified_diff(old, new, n=0, lineterm="") if not line.startswith(("---", "+++", "@@"))]
    shown = [cut(line, 160) for line in lines[:CHANGE_LINES]]
    return "\n".join(shown + ([f"({len(lines) - CHANGE_LINES} more lines)"] if len(lines) > CHANGE_LINES else [])) or "(nothing)"


def cut(text: str, room: int) -> str:
    """At most `room` characters, and a sign where something is missing."""
    text = text.strip()
    return text if len(text) <= room else text[: room - 2].rstrip() + " …"
