"""Learning in context: which options the kernels shown took, how those did, and what that says about each option."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from evokernel.core.records import Attempt, Context, MemoryItem, Stage, State
from evokernel.generators.sweep.hints import Hints

LINE = re.compile(r"^\s*(?://|#)\s*decisions: (\w+)((?: \w+=\w+)*)\s*$", re.MULTILINE)

NOTE = re.compile(r": (\w+)((?: \w+=\w+)+)")
"""The same in the words of a note, which has no code."""

NOTHING = Hints()

SAME, OTHER = 1.0, 0.4
"""Weight of evidence from the same sketch and from another one."""
LONE = 0.3


class Evidence(NamedTuple):
    """One kernel seen: what it decided, how far that concerns the operator at hand, and how it did."""

    taken: Mapping[str, str]
    weight: float
    is_feasible: bool
    reason: str = ""
    detail: str = ""
    gain: float = 0.0
    is_own: bool = False
    """Whether it was written for the task at hand, by this run or an earlier one."""


def decisions_in(code: str, hints: Hints = NOTHING) -> tuple[str, dict[str, str]]:
    """Sketch and decisions written in a text; for other writers' code no sketch, and what the code reveals."""
    if found := LINE.search(code):
        return found[1], dict(pair.split("=", 1) for pair in found[2].split())
    return "", {name: option for name, option, sign in reversed(hints.signs) if sign.search(code)}


def decisions_of(item: MemoryItem, hints: Hints) -> tuple[str, dict[str, str]]:
    """Sketch and decisions of a trace or of a note about one."""
    if not item.code and (found := NOTE.search(item.text)):
        return found[1], dict(pair.split("=", 1) for pair in found[2].split())
    return decisions_in(item.code, hints)


def gather(sketch: str, state: State, context: Context, backend: str, hints: Hints) -> list[Evidence]:
    """What the context and the task's own attempts have to say."""
    tried = [as_item(attempt) for attempt in (*state.attempts, *([context.start] if context.start else []))]
    judged: dict[tuple[object, ...], tuple[MemoryItem, str, dict[str, str]]] = {}
    for item in (*tried, *(shown.item for shown in context.items)):
        own, taken = decisions_of(item, hints)
        if taken and item.backend == backend and item.feasible is not None:
            # A trace and the note on it are one observation.
            judged.setdefault((item.task, item.latency_us, *taken.items()), (item, own, taken))
    peers = {task: [log_speed(i) for i, _, _ in judged.values() if i.task == task and i.feasible] for task in {k[0] for k in judged}}
    found = []
    for item, own, taken in judged.values():
        weight = SAME if own == sketch else OTHER
        gain = relative_speed(log_speed(item), peers[item.task])
        found.append(Evidence(taken, weight, bool(item.feasible), item.reason, item.text, gain, item.task == state.task.id))
    return found


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
        id=attempt.trace, kind="trace", backend=attempt.candidate.backend, task=attempt.task, feasible=outcome.feasible, **words, **speed
    )


def log_speed(item: MemoryItem) -> float:
    """How fast an item is against the baseline, on a log scale; nothing known counts as neither."""
    return math.log(item.speedup) if item.speedup and item.speedup > 0 else 0.0


def relative_speed(speed: float, peers: list[float]) -> float:
    """Against other kernels of the same task where some are shown; a lone one says less, since baselines differ."""
    apart = speed - sum(peers) / len(peers) if len(peers) > 1 else LONE * speed
    return max(-2.0, min(2.0, apart))


class Belief:
    """A score per option: log of how likely it works, plus how much faster it seems to be. All options start equal."""

    def __init__(self, evidence: Iterable[Evidence], hints: Hints = NOTHING, cards: str = "", stage: Stage = Stage.DRAFT) -> None:
        listed = list(evidence)
        self.hints = hints
        # While drafting, what is known to work is worth something in itself; while refining, what was not tried yet is.
        self.trust, self.hope = (0.5, 0.0) if stage is Stage.DRAFT else (0.0, 1.5)
        self.worked: dict[tuple[str, str], float] = defaultdict(float)
        self.failed: dict[tuple[str, str], float] = defaultdict(float)
        self.gained: dict[tuple[str, str], float] = defaultdict(float)
        self.tried: dict[tuple[str, str], float] = defaultdict(float)
        self.exceeded: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for one in listed:
            for pair in one.taken.items():
                self.tried[pair] += one.weight
                if one.is_feasible:
                    self.worked[pair] += one.weight
                    self.gained[pair] += one.weight * one.gain
        for one in listed:
            if not one.is_feasible:
                weight = one.weight * hints.strength.get(one.reason, 1.0)
                for pair, share in self.blame(one):
                    self.failed[pair] += weight * share
                    if pair[0] in hints.sizes.get(one.reason, ()) and pair[1].isdigit():
                        self.exceeded[pair[0]].append((int(pair[1]), weight * share))
        words = cards.lower()
        self.named = {pair for pair, phrases in hints.cards.items() if any(phrase in words for phrase in phrases)}

    def blame(self, one: Evidence) -> Iterator[tuple[tuple[str, str], float]]:
        """A failure's blame, shared among the suspects; options that worked elsewhere are less suspect."""
        suspects = self.hints.suspects.get(one.reason, dict.fromkeys(one.taken, 0.2))
        detail = one.detail.lower()
        weight = {}
        for name, option in one.taken.items():
            hinted = 5.0 if any(hint in detail for hint in self.hints.words.get(name, ())) else 1.0
            if name in suspects:
                weight[name, option] = suspects[name] * hinted / (1 + 4 * self.worked[name, option])
        total = sum(weight.values())
        yield from ((pair, share / total) for pair, share in weight.items())

    def score(self, name: str, option: str) -> float:
        """Higher when the option did well, was named by a card or was never tried; lower when it is suspect or slow."""
        pair = (name, option)
        smaller = sum(share for size, share in self.exceeded[name] if option.isdigit() and size < int(option))
        works = math.log((1 + self.worked[pair]) / (1 + self.worked[pair] + 3 * (self.failed[pair] + smaller)))
        faster = 2 * self.gained[pair] / (1 + self.worked[pair])
        seen = self.trust * self.worked[pair] / (1 + self.worked[pair]) + self.hope / (1 + self.tried[pair])
        return works + faster + seen + (0.4 if pair in self.named else 0.0)

    def impact(self, name: str, options: Iterable[str]) -> float:
        """How far apart in speed the options of a decision were seen to be; 1 while fewer than two were seen."""
        speeds = [self.gained[name, o] / self.worked[name, o] for o in options if self.worked[name, o]]
        return 0.3 + max(speeds) - min(speeds) if len(speeds) > 1 else 1.0


def card_text(context: Context) -> str:
    """The words of all cards shown."""
    return "\n".join(f"{s.item.title}\n{s.item.text}" for s in context.items if s.item.kind in ("practice", "api"))
