"""What kernels shown and tried have to say: which decisions stand in them, stage by stage, and how they did."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from evokernel.core.records import Attempt, Context, MemoryItem, State
from evokernel.generators.template_search.hints import Hints

WORDS = r"\w+(?: \w+=\w+)*"
LINE = re.compile(rf"^\s*(?://|#)\s*decisions: ({WORDS}(?: \| {WORDS})*)\s*$", re.MULTILINE)
NOTE = re.compile(rf": (\w+(?: \w+=\w+)+(?: \| {WORDS})*)")
"""The same in the words of a note, which has no code."""
LONE = 0.3
"""Share of a kernel's speed-up that counts where no other kernel of its task is shown: baselines differ."""

Stages = tuple[tuple[str, Mapping[str, str]], ...]
"""Sketch and decisions of each part of a kernel; other writers' code is one part without a sketch."""


class Evidence(NamedTuple):
    """One kernel seen: what it decided, and how it did."""

    parts: Stages
    is_feasible: bool
    reason: str = ""
    detail: str = ""
    gain: float = 0.0
    is_own: bool = False
    """Whether it was written for the task at hand, by this run or an earlier one."""
    task: str = ""


def parsed(line: str) -> Stages:
    """Decisions from the line that carries them."""
    parts = (part.split() for part in line.split(" | "))
    return tuple((words[0], dict(pair.split("=", 1) for pair in words[1:])) for words in parts)


def decisions_in(code: str, hints: Hints) -> Stages:
    """Decisions written in a text; for other writers' code what it reveals, where it reveals anything."""
    if found := LINE.search(code):
        return parsed(found[1])
    read = {name: option for name, option, sign in reversed(hints.signs) if sign.search(code)}
    return (("", read),) if read else ()


def decisions_of(item: MemoryItem, hints: Hints) -> Stages:
    """Decisions of a trace or of a note about one."""
    if item.code:
        return decisions_in(item.code, hints)
    found = NOTE.search(item.text)
    return parsed(found[1]) if found else ()


def gather(state: State, context: Context, backend: str, hints: Hints) -> list[Evidence]:
    """What the context and the task's own attempts have to say."""
    tried = [as_item(attempt) for attempt in (*state.attempts, *([context.start_point] if context.start_point else []))]
    judged: dict[object, tuple[MemoryItem, Stages]] = {}
    for item in (*tried, *(shown.item for shown in context.items)):
        parts = decisions_of(item, hints)
        if parts and item.backend == backend and item.feasible is not None:
            # A trace and the note on it are one observation.
            judged.setdefault((item.task, item.latency_us, repr(parts)), (item, parts))
    peers: dict[str | None, list[float]] = {}
    for item, _ in judged.values():
        if item.feasible:
            peers.setdefault(item.task, []).append(log_speed(item))
    return [
        Evidence(
            parts, bool(item.feasible), item.reason, item.text, relative_speed(log_speed(item), peers.get(item.task, [])),
            item.task == state.task.id, item.task or "",
        )
        for item, parts in judged.values()
    ]  # fmt: skip


def as_item(attempt: Attempt) -> MemoryItem:
    """An attempt as the trace of it would be shown."""
    outcome, failure = attempt.outcome, attempt.outcome.failure
    words = {
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
        **words,
        **speed,
    )


def log_speed(item: MemoryItem) -> float:
    """How fast an item is against the baseline, on a log scale; nothing known counts as neither."""
    return math.log(item.speedup) if item.speedup and item.speedup > 0 else 0.0


def relative_speed(speed: float, peers: list[float]) -> float:
    """Against other kernels of the same task where some are shown; a lone one says less, since baselines differ."""
    apart = speed - sum(peers) / len(peers) if len(peers) > 1 else LONE * speed
    return max(-2.0, min(2.0, apart))


class Words(NamedTuple):
    """Everything a context says, in lower case."""

    cards: str = ""
    code: str = ""
    """Of kernels shown."""


SILENCE = Words()


def words_of(context: Context) -> Words:
    """The words of all cards shown, and the code of all kernels."""
    items = [shown.item for shown in context.items]
    cards = (f"{item.title}\n{item.text}\n{item.code}" for item in items if item.kind in ("practice", "api"))
    code = [item.code for item in items if item.kind not in ("practice", "api")]
    return Words(
        "\n".join(cards).lower(), "\n".join([*code, *([context.start_point.candidate.code] if context.start_point else [])]).lower()
    )
