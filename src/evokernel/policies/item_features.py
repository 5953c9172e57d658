"""Features of a pair of task and memory item, from which the policy `contextual` predicts what showing the item gains.

Every feature lies between 0 and 1 (`speedup` and `value`: -1 and 1) and is rounded, so that a journal reproduces it exactly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import log, tanh

from evokernel.core.memory_ids import split_trace_id
from evokernel.core.protocols import MemoryStore
from evokernel.core.records import Attempt, MemoryItem, Stage
from evokernel.core.state import State
from evokernel.policies.excerpts import contains_identifier
from evokernel.policies.reference_cards import needed_families, search_cards
from evokernel.policies.retrieval import outcome_label

STATE_FEATURES = ("base", "attempts", "parts", "start_speed")
"""Features of the task alone: they explain how hard an attempt is, whatever its prompt shows."""
FEATURE_LABELS = {
    "shown": "an item is shown at all",
    "similarity": "from a similar operator",
    "family": "same operator family",
    "new_part": "covers a part that nothing else shown covers",
    "repeated_part": "covers a part that is covered already",
    "repeated_task": "another item of its task is shown already",
    "repeated_outcome": "an item of its family with its outcome is shown already",
    "dtype": "same data type",
    "correct": "a correct kernel",
    "failed": "a failed kernel",
    "same_failure": "failed as the last attempt did",
    "speedup": "its speed relative to its baseline",
    "late": "written late in the search on its task",
    "length": "its length",
    "needed_apis": "uses APIs that the operator needs",
    "card": "a knowledge card",
    "note": "a note about an attempt",
    "bottleneck": "same bottleneck as the start point",
    "cause": "meant for a cause of the latency",
    "visits": "shown often before",
    "value": "rewards of attempts that were shown it",
}
"""Features of a pair of task and item, in plain words."""
OWN_RECORD = "own_record"
"""What an item earned beyond the prediction of its features."""
REASON_LABELS = {**FEATURE_LABELS, OWN_RECORD: "what it earned beyond that"}
ALL_FEATURES = (*STATE_FEATURES, *FEATURE_LABELS)
SEARCHED_ITEMS, MAX_API_NAMES, FULL_LENGTH = 512, 48, 8_000
DTYPE_NAME = re.compile(r"\b(float16|half|bfloat16|float64|double|int8|uint8|int16|int32|int64|long|bool|complex64)\b")
DTYPE_ALIASES = {"half": "float16", "double": "float64", "long": "int64"}

Features = Mapping[str, float]


def describe_state(state: State, start: Attempt | None) -> dict[str, float]:
    """Return the features of the task alone: attempts so far, parts of the operator, and the speed of the start point."""
    attempts, speedup = len(state.attempts), start.outcome.speedup if start else None
    parts = min(len(needed_families(state.task)), 4) / 4
    return round_features({"base": 1.0, "attempts": attempts / (attempts + 3), "parts": parts, "start_speed": squash_speedup(speedup)})


class ItemDescriber:
    """Describes the items of one context. The memory is read once, at the moment of choice."""

    def __init__(self, state: State, memory: MemoryStore, start: Attempt | None) -> None:
        self.state, self.memory, self.start = state, memory, start
        self.stage = Stage.REFINE if start else Stage.DRAFT
        self.families = needed_families(state.task)
        hits = memory.search(state.task.source, SEARCHED_ITEMS)
        self.similarities = {hit.item.id: hit.similarity for hit in hits}
        self.backend = hits[0].item.backend if hits else ""
        """The backend of the memory; empty for an empty memory, which has no model either."""
        self.dtypes = find_dtypes(state.task.source)
        cards = search_cards(state, memory, "api", "practice")
        names = (name for card in cards if {card.family, *card.families} & set(self.families) for name in card.apis)
        self.api_names = tuple(dict.fromkeys(names))[:MAX_API_NAMES]
        self.fixed_features: dict[tuple[str, str], dict[str, float]] = {}
        self.described: dict[tuple[str, str, frozenset[str]], dict[str, float]] = {}

    def describe(self, item: MemoryItem, shown: Sequence[MemoryItem], cause: str = "") -> dict[str, float]:
        """Return the features of an item that would be shown after those already chosen; features that are 0 are left out."""
        key, shown_ids = (item.id, cause), frozenset(other.id for other in shown)
        if key not in self.fixed_features:
            self.fixed_features[key] = self.describe_alone(item, cause)
        if (*key, shown_ids) not in self.described:
            self.described[*key, shown_ids] = round_features(self.fixed_features[key] | self.describe_overlap(item, shown))
        return self.described[*key, shown_ids]

    def describe_alone(self, item: MemoryItem, cause: str) -> dict[str, float]:
        """Return the features that do not depend on the other items of the context."""
        value = self.memory.values([item.id], self.stage)[item.id]
        profile = self.start.outcome.profile if self.start else None
        last = self.state.last_attempt.outcome.failure if self.state.last_attempt else None
        return {
            "shown": 1.0,
            "similarity": max(0.0, self.similarities.get(item.id, 0.0)),
            "family": float(bool(item.family) and item.family == self.state.task.family),
            "dtype": float(bool(item.key) and find_dtypes(item.key) == self.dtypes),
            "correct": float(item.feasible is True),
            "failed": float(item.feasible is False),
            "same_failure": float(bool(last and item.reason) and item.reason == (last.reason if last else "")),
            "speedup": squash_speedup(item.speedup),
            "late": attempt_number(item) / (attempt_number(item) + 4),
            "length": min(1.0, (len(item.text) + len(item.code)) / FULL_LENGTH),
            "needed_apis": self.share_of_needed_apis(item),
            "card": float(item.task is None),
            "note": float(item.kind == "experience"),
            "bottleneck": float(bool(profile and item.bottleneck) and item.bottleneck == (profile.bottleneck if profile else "")),
            "cause": float(bool(cause)),
            "visits": log(1 + value.visits) / (1 + log(1 + value.visits)),
            "value": min(max(value.q, -1.0), 1.0),
        }

    def describe_overlap(self, item: MemoryItem, shown: Sequence[MemoryItem]) -> dict[str, float]:
        """Return the features that say what the context already has of an item."""
        own_parts = {item.family, *item.families} & set(self.families)
        covered = {family for other in shown for family in (other.family, *other.families)}
        same_task = sum(item.task is not None and item.task == other.task for other in shown)
        same_outcome = sum(item.family == other.family and outcome_label(item) == outcome_label(other) for other in shown)
        return {
            "new_part": float(bool(own_parts - covered)),
            "repeated_part": float(bool(own_parts) and own_parts <= covered),
            "repeated_task": same_task / (1 + same_task),
            "repeated_outcome": same_outcome / (1 + same_outcome),
        }

    def share_of_needed_apis(self, item: MemoryItem) -> float:
        """Return the share of the APIs that the cards on the operator's parts explain which the item uses or explains."""
        if not self.api_names:
            return 0.0
        text = item.code or item.text
        return sum(name in item.apis or contains_identifier(name, text) for name in self.api_names) / len(self.api_names)


def squash_speedup(speedup: float | None) -> float:
    """Return a speed-up on a scale from -1 to 1; 0 for a kernel as fast as its baseline, and if the speed-up is unknown."""
    return tanh(log(speedup)) if speedup else 0.0


def attempt_number(item: MemoryItem) -> int:
    """Return which attempt on its task wrote an item, from 0; 0 for cards."""
    number = split_trace_id(item.id)[1].rpartition("/")[2]
    return int(number) if number.isdigit() else 0


@lru_cache(maxsize=4096)
def find_dtypes(source: str) -> frozenset[str]:
    """Return the data types that a reference names; empty for one that uses float32 alone."""
    return frozenset(DTYPE_ALIASES.get(name, name) for name in DTYPE_NAME.findall(source))


def round_features(features: Features) -> dict[str, float]:
    """Return the features with four digits, without those that are 0."""
    return {name: rounded for name, value in features.items() if (rounded := round(value, 4))}


def explain_choice(reasons: Features) -> str:
    """Return the reasons for showing an item in plain words, the largest first: `+0.21 from a similar operator, ...`."""
    ranking = sorted(reasons.items(), key=lambda reason: -abs(reason[1]))
    return ", ".join(f"{gain:+.2f} {REASON_LABELS.get(name, name)}" for name, gain in ranking if abs(gain) >= 0.005)
