"""Evidence from kernels shown and tried: the decisions of each stage, and how well the kernel did.

A generated kernel records its decisions in a comment: `// decisions: map simd=vec tail=masked | reduce ...`, `#` instead of `//` in Python.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from evokernel.core.records import Attempt, Context, MemoryItem
from evokernel.core.state import State
from evokernel.generators.template_search.hints import Hints

STAGE_TEXT = r"\w+(?: \w+=\w+)*"
DECISION_LINE = re.compile(rf"^\s*(?://|#)\s*decisions: ({STAGE_TEXT}(?: \| {STAGE_TEXT})*)\s*$", re.MULTILINE)
DECISION_NOTE = re.compile(rf": (\w+(?: \w+=\w+)+(?: \| {STAGE_TEXT})*)")
"""The same decisions in a note about a kernel, which has no code."""
TUNED_CONSTANT = re.compile(r"^(?:constexpr int )?([A-Z][A-Z0-9]*_[A-Z]+) = (\d+);?  (?://|#) tune: ", re.MULTILINE)
NOTED_CONSTANT = re.compile(r"\b([A-Z][A-Z0-9]*_[A-Z]+) = (\d+)")
"""The value of a tunable in code, and in a note; the last one of a note is the tuned one."""
SINGLE_KERNEL_SHARE = 0.3
"""Share of a kernel's log speedup that counts if no other kernel of its task is shown: baselines differ between tasks."""

StageChoices = tuple[tuple[str, Mapping[str, str]], ...]
"""Family and choice of each stage of a kernel; code without a decision line is one stage with an empty family."""


class Evidence(NamedTuple):
    """The decisions of one kernel and how well it did."""

    stages: StageChoices
    is_feasible: bool
    reason: str = ""
    detail: str = ""
    gain: float = 0.0
    """Log speed relative to other kernels of the same task."""
    is_same_task: bool = False
    """Whether the kernel is for the current task, from this run or an earlier one."""
    task: str = ""


class PartnerKernel(NamedTuple):
    """The decisions of a second kernel that is to be combined with the start point."""

    stages: StageChoices
    is_same_task: bool


def parse_decisions(line: str) -> StageChoices:
    """The decisions of a decision line."""
    stages = (stage.split() for stage in line.split(" | "))
    return tuple((words[0], dict(pair.split("=", 1) for pair in words[1:])) for words in stages)


def read_decisions(code: str, hints: Hints) -> StageChoices:
    """The decisions that code records; for code of another generator, those that its constructs show, if any."""
    if match := DECISION_LINE.search(code):
        return resolve_constants(parse_decisions(match[1]), dict(TUNED_CONSTANT.findall(code)))
    choice = {name: option for name, option, sign in reversed(hints.signs) if sign.search(code)}
    return (("", choice),) if choice else ()


def read_item_decisions(item: MemoryItem, hints: Hints) -> StageChoices:
    """The decisions of the kernel that a memory item holds or describes."""
    if item.code:
        return read_decisions(item.code, hints)
    match = DECISION_NOTE.search(item.text)
    return resolve_constants(parse_decisions(match[1]), dict(NOTED_CONSTANT.findall(item.text))) if match else ()


def resolve_constants(stages: StageChoices, constants: Mapping[str, str]) -> StageChoices:
    """The decisions with the values of tunables in place of their names."""
    return tuple((family, {name: constants.get(option, option) for name, option in choice.items()}) for family, choice in stages)


def gather_evidence(state: State, context: Context, backend: str, hints: Hints) -> list[Evidence]:
    """Evidence from the attempts on the task and from the items of the context."""
    attempts = (*state.attempts, *([context.start_point] if context.start_point else []))
    items = (*(attempt_to_item(attempt) for attempt in attempts), *(entry.item for entry in context.items))
    observations: dict[object, tuple[MemoryItem, StageChoices]] = {}
    for item in items:
        stages = read_item_decisions(item, hints)
        if stages and item.backend == backend and item.feasible is not None:
            # A trace and the note about it are one observation.
            observations.setdefault((item.task, item.latency_us, repr(stages)), (item, stages))
    peers: dict[str | None, list[float]] = {}
    for item, _ in observations.values():
        if item.feasible:
            peers.setdefault(item.task, []).append(log_speedup(item))
    return [
        Evidence(
            stages, bool(item.feasible), item.reason, item.text, relative_speed(log_speedup(item), peers.get(item.task, [])),
            item.task == state.task.id, item.task or "",
        )
        for item, stages in observations.values()
    ]  # fmt: skip


def find_partner(state: State, context: Context, backend: str, hints: Hints) -> PartnerKernel | None:
    """The second kernel of a context; None without one, or if templates did not write both kernels: then nothing can be crossed."""
    start, items = context.start_point, [entry.item for entry in context.items if entry.role == "partner"]
    if start is None or not items or items[0].backend != backend:
        return None
    is_generated = all(DECISION_LINE.search(code) for code in (start.candidate.code, items[0].code))
    return PartnerKernel(read_decisions(items[0].code, hints), items[0].task == state.task.id) if is_generated else None


def attempt_to_item(attempt: Attempt) -> MemoryItem:
    """An attempt in the form of its memory trace."""
    outcome, failure = attempt.outcome, attempt.outcome.failure
    texts = {
        "title": "",
        "text": failure.detail if failure else "",
        "code": attempt.candidate.code,
        "reason": failure.reason if failure else "",
    }
    speed = {"latency_us": outcome.latency_us, "speedup": outcome.speedup}
    return MemoryItem(
        id=attempt.memory_id,
        kind="trace",
        backend=attempt.candidate.backend,
        task=attempt.task,
        feasible=outcome.feasible,
        **texts,
        **speed,
    )


def log_speedup(item: MemoryItem) -> float:
    """The log of an item's speedup over the baseline; 0 if it is unknown."""
    return math.log(item.speedup) if item.speedup and item.speedup > 0 else 0.0


def relative_speed(speed: float, peers: list[float]) -> float:
    """Log speed relative to the mean of the task's kernels; a share of the speed itself if there is only one kernel."""
    difference = speed - sum(peers) / len(peers) if len(peers) > 1 else SINGLE_KERNEL_SHARE * speed
    return max(-2.0, min(2.0, difference))


class ContextText(NamedTuple):
    """All text of a context, in lower case."""

    cards: str = ""
    code: str = ""
    """The code of the kernels shown."""


NO_TEXT = ContextText()


def collect_context_text(context: Context) -> ContextText:
    """The text of all cards shown, and the code of all kernels."""
    items = [entry.item for entry in context.items]
    cards = (f"{item.title}\n{item.text}\n{item.code}" for item in items if item.kind in ("practice", "api"))
    code = [item.code for item in items if item.kind not in ("practice", "api")]
    return ContextText(
        "\n".join(cards).lower(), "\n".join([*code, *([context.start_point.candidate.code] if context.start_point else [])]).lower()
    )
