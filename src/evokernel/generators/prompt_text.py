"""Outcomes, tolerances and sizes in words a reader of a prompt can act on."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple

from evokernel.core import labels
from evokernel.core.records import Attempt, ContextItem, MemoryItem, Outcome, Stage, State, Task
from evokernel.llm.render import one_line

ROLES = {
    "start": "the kernel to improve",
    "child": "what was already made from the kernel to improve",
    "trace": "a kernel from memory",
    "experience": "experience",
    "practice": "good practice",
    "bottleneck": "help with the bottleneck of the kernel to improve",
    "variant": "another fast kernel",
    "api": "reference card",
}
ORDER = ("api", "practice", "bottleneck", "experience", "trace", "variant", "start", "child")
DETAIL_CHARS = 3000
TRIED_LINES = 30
MOST_RESULT = 120
MAKERS = ("get_inputs", "get_init_inputs")


class Extent(NamedTuple):
    """How much of a task's history a prompt tells."""

    failures: int
    characters: int
    """Of what the judge said about each failure."""
    lines: int
    """Of what was tried, one for each attempt."""


EXTENTS = (Extent(3, DETAIL_CHARS, TRIED_LINES), Extent(2, 1200, 10), Extent(1, 800, 5))
"""From all of it to what a small context has room for."""


class Failure(NamedTuple):
    """A failed attempt as a prompt shows it."""

    number: str
    where: str
    detail: str
    code: str


def us(latency_us: float) -> str:
    """A latency with three or four significant digits."""
    return f"{latency_us:.1f} us" if latency_us < 1000 else f"{latency_us / 1000:.2f} ms"


def speed(latency_us: float | None, speedup: float | None, clock: str = "", baseline: str = "") -> str:
    """`12.3 us, estimate (schedule), 1.50x the speed of XLA`; says so where there is no time."""
    if latency_us is None:
        return "not timed"
    label = labels.estimate_note([clock])
    return us(latency_us) + (f", {label}" if label else "") + labels.speedup_phrase(speedup, baseline)


def outcome_words(outcome: Outcome) -> str:
    """How an attempt ended, in a few words."""
    if outcome.failure:
        return f"failed at gate {outcome.failure.gate}: {outcome.failure.reason or 'no reason given'}"
    return f"correct, {speed(outcome.latency_us, outcome.speedup, outcome.clock, outcome.baseline_name)}"


def beside(outcome: Outcome) -> str:
    """What the baseline takes for the same work; nothing when there is none."""
    base, label = outcome.baseline_latency_us(), labels.estimate_note([outcome.clock])
    if base is None:
        return ""
    return f"{labels.baseline_label([outcome.baseline_name])} takes {us(base)} for the same work, {label or 'measured beside it'}."


def item_words(item: MemoryItem) -> str:
    """How the kernel in a memory item did; empty for what was never judged."""
    if item.feasible is None:
        return ""
    return f"correct, {speed(item.latency_us, item.speedup)}" if item.feasible else f"failed: {item.reason or 'no reason given'}"


def item_heading(shown: ContextItem) -> str:
    """Role, title, origin and outcome of an item on one line; what the title says already is not said again."""
    item = shown.item
    word = "correct" if item.feasible else item.reason
    outcome = "" if word and word in item.title else item_words(item)
    origin = f" (from {one_line(item.task, 80)})" if item.task and item.task not in item.title else ""
    return f"{ROLES[shown.role].capitalize()}: {one_line(item.title, 120)}{origin}" + (f" · {one_line(outcome, 120)}" if outcome else "")


def computed(source: str) -> str:
    """A reference without the functions that make its inputs: a brief prompt names the shapes anyway."""
    lines = source.splitlines()
    for maker in sorted((one for one in functions(source) if one.name in MAKERS), key=lambda one: -one.lineno):
        del lines[maker.lineno - 1 : maker.end_lineno]
    return "\n".join(lines).strip() + "\n"


def wanted(source: str, entry: str) -> str:
    """What a reply's code must be, once more and in one line, for whoever has lost sight of it: its entry and what `forward` returns."""
    said = [f"defines `{called.name}({ast.unparse(called.args)})`" for called in functions(entry)[:1]]
    for forward in functions(source):
        (*before, last) = forward.body
        if forward.name == "forward" and not before and isinstance(last, ast.Return) and last.value:
            said += [f"computes `{result}`" for result in [ast.unparse(last.value)] if len(result) <= MOST_RESULT]
    return f"It {' and '.join(said)}." if said else ""


def functions(source: str) -> list[ast.FunctionDef]:
    """All that are defined in Python code; none in anything else."""
    try:
        return [part for part in ast.walk(ast.parse(source)) if isinstance(part, ast.FunctionDef)]
    except (SyntaxError, ValueError):
        return []


def rank(shown: ContextItem) -> int:
    """What goes last among items of equal value: correct kernels, then advice, then what every draft is shown, then other cards."""
    item = shown.item
    if item.code and item.feasible:
        return 0
    return 1 if shown.role != "api" else 2 if item.always_include else 3


def has_example(items: Sequence[ContextItem]) -> bool:
    """Whether a correct kernel is among what is shown."""
    return any(rank(shown) == 0 for shown in items)


def number(attempt: Attempt) -> str:
    """The n of an attempt's id."""
    return attempt.id.rpartition("/")[2]


def tried(state: State, most: int = TRIED_LINES) -> list[str]:
    """One line per earlier attempt, oldest first; of a long history the latest."""
    return [line(attempt) for attempt in state.attempts[-most:]]


def line(attempt: Attempt) -> str:
    """What an attempt was, how it ended and what its writer said about it."""
    made = f"refining {attempt.start_point.rpartition('/')[2]}" if attempt.start_point else str(attempt.stage)
    said = one_line(attempt.lesson or attempt.candidate.notes, 160)
    return f"attempt {number(attempt)} ({made}): {outcome_words(attempt.outcome)}" + (f" · {said}" if said else "")


def children(state: State, start: Attempt) -> list[str]:
    """What was made from a start point, each with its latency relative to it."""
    lines = []
    for child in (a for a in state.attempts if a.start_point == start.id):
        mine, its = child.outcome.latency_us, start.outcome.latency_us
        ratio = f" ({its / mine:.2f}x the speed of the kernel to improve)" if child.outcome.feasible and mine and its else ""
        said = one_line(child.lesson or child.candidate.notes, 160)
        lines.append(f"attempt {number(child)}: {outcome_words(child.outcome)}{ratio}" + (f" · {said}" if said else ""))
    return lines


def failures(state: State, stage: Stage, extent: Extent = EXTENTS[0]) -> list[Failure]:
    """The last failed attempts, most recent first; once there is something to refine, those of refining."""
    failed = [a for a in reversed(state.attempts) if a.outcome.failure and stage in (a.stage, Stage.DRAFT)][: extent.failures]
    return [
        Failure(number(a), outcome_words(a.outcome), detail(a.outcome, extent.characters), a.candidate.code if a.candidate.files else "")
        for a in failed
    ]


def detail(outcome: Outcome, most: int = DETAIL_CHARS) -> str:
    """What the judge said about a failure, bounded: its beginning and its end."""
    text = outcome.failure.detail if outcome.failure else ""
    if len(text) <= most:
        return text
    return f"{text[: most * 3 // 4]}\n[... {len(text) - most} characters left out ...]\n{text[-most // 4 :]}"


def small_sizes(task: Task) -> str:
    """`N = 64, D = 32`: how the small size differs from the reference as written. Held-out sizes are never named."""
    return ", ".join(f"{name} = {value}" for name, value in task.sizes.get("small", {}).items())


def varies(task: Task) -> bool:
    """Whether the task is checked at other sizes than those it is timed at."""
    return any(task.sizes.get(name) for name in ("small", "held_out"))


def exact_outputs(task: Task) -> list[str]:
    """Outputs that have no tolerance because they hold whole numbers or truth values."""
    return [t.name for t in task.signature.outputs if not t.dtype.startswith(("float", "bfloat"))]
