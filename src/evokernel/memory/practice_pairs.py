"""Turn a pair of kernels that differ in one optimisation into a practice item: what changed, what it was worth, under which profile."""

from __future__ import annotations

from math import exp

from evokernel.core import labels
from evokernel.core.opportunities import addressed_cause
from evokernel.core.records import Attempt, MemoryItem, Task
from evokernel.core.state import speed_gain
from evokernel.memory.distill import diff_text, truncate

SUMMARY_CHARS = 400
MIN_WORTH = 1.05
"""Smallest ratio of latencies that is worth an item: less is hard to tell from noise on another machine, and teaches little."""


def measure_worth(fast: Attempt, slow: Attempt) -> float | None:
    """How many times as fast the fast kernel is; None unless both are correct and the slower one is significantly slower by MIN_WORTH."""
    if not (fast.outcome.feasible and slow.outcome.feasible and fast.outcome.latency_us and slow.outcome.latency_us):
        return None
    worth = exp(-speed_gain(slow.outcome, fast))
    return worth if worth >= MIN_WORTH else None


def make_practice_item(task: Task, fast: Attempt, slow: Attempt, parent: str = "") -> MemoryItem | None:
    """The practice item of a pair; None if the optimisation is worth nothing or the kernels cannot be compared line by line.

    `parent` is the trace of the fast kernel, if memory has one: revoking it revokes the pair.
    """
    worth, changes = measure_worth(fast, slow), diff_text(slow, fast)
    if worth is None or changes.startswith("("):
        return None
    profile = slow.outcome.profile
    cause = addressed_cause(slow.outcome, fast.outcome) if profile and profile.opportunities else ""
    label = labels.estimate_note([slow.outcome.clock]) or f"measured (clock {slow.outcome.clock or 'not reported'})"
    removed = truncate(slow.candidate.notes, SUMMARY_CHARS) or "not named"
    lines = [
        f"One optimisation of a correct kernel for {task.id}, worth {worth:.2f}x: "
        f"{slow.outcome.latency_us:.1f} us without it, {fast.outcome.latency_us:.1f} us with it; {label}.",
        f"The optimisation: {removed}",
    ]
    if profile:
        bound = f"cause {cause}, bound by {profile.bottleneck}" if cause else f"bound by {profile.bottleneck}"
        lines.append(f"Profile of the slower kernel: {bound}. {truncate(profile.summary, SUMMARY_CHARS)}")
    text = "\n".join(lines) + f"\nChanged lines, from the slower kernel to the faster one:\n\n```diff\n{changes}\n```"
    return MemoryItem(
        id=slow.memory_id,
        kind="practice",
        backend=fast.candidate.backend,
        title=f"{task.family} · {task.id} · worth {worth:.2f}x: {truncate(removed.splitlines()[0], 80)}",
        text=text,
        key=task.source,
        task=task.id,
        family=task.family,
        bottleneck=profile.bottleneck if profile else "",
        causes=(cause,) if cause else (),
        source=f"{slow.run}/{slow.id}",
        parent=parent,
        candidate=fast.candidate.id,
    )
