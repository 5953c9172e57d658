"""The value model of the policy `contextual`: Bayesian linear regression of an attempt's reward on what its prompt showed.

An attempt is one observation. Its expected reward is what the task's own features predict, plus, for each item shown, what the features
of task and item predict and what the item earned beyond that. The posterior is exact and depends only on which observations memory has,
not on their order. So it is a fold of the journal: a resumed run, an imported pack and a revocation all give the model that would result
from the observations that remain.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from math import sqrt
from random import Random
from typing import NamedTuple

import numpy as np

from evokernel.core.memory_ids import make_model_id
from evokernel.core.protocols import MemoryReader, MemoryStore
from evokernel.core.records import Attempt, Stage
from evokernel.policies.item_features import ALL_FEATURES, FEATURE_LABELS, OWN_RECORD, STATE_FEATURES, Features

STATE_PRECISION, FEATURE_PRECISION = 4.0, 20.0
"""How many observations the prior of a weight counts as. Success without help is not known well, so a set that fails is blamed itself."""
NOISE = 0.7
"""Standard deviation of rewards around their expectation. It is not estimated: equal rewards would make the model certain of what it never
tried, and a set that always fails would never be replaced."""
UNCHOSEN_ROLES = ("api", "start", "child", "partner")
"""Roles of items that no policy chooses by value: reference cards, the start point and its refinements, and a strategy's partner."""
MAX_RECORDS = 200
"""Items whose own record is estimated: the candidates, then those that were shown most often."""
MIN_SCALE, MAX_REWARD = 0.1, 3.0
"""Refinement rewards are divided by their root mean square, or by this if it is smaller, and clipped."""
MAX_GAIN = 2.0
"""Largest gain in raw reward: rewards lie between -1 and 1."""
PRIOR_WEIGHTS: Mapping[Stage, Features] = {
    Stage.DRAFT: {
        "shown": 0.05,
        "similarity": 0.3,
        "new_part": 0.2,
        "correct": 0.2,
        "repeated_task": -0.6,
        "repeated_outcome": -0.6,
        "value": 0.3,
    },
    Stage.REFINE: {"shown": -0.05, "cause": 0.2, "bottleneck": 0.15, "repeated_task": -0.3, "value": 0.3},
}
"""Weights before the first observation: in drafting the preferences of the policy `value`, in refining a little help with a cause."""


class Observation(NamedTuple):
    """One attempt: the features of its task and the sums over the items shown, the items, and the raw reward."""

    features: Features
    items: tuple[str, ...]
    reward: float


class Draws(NamedTuple):
    """Draws from the posterior, one per row: the weights of all features, and the records of some items."""

    weights: np.ndarray
    records: np.ndarray


@lru_cache(maxsize=65536)
def parse_scope(scope: str) -> tuple[Features, tuple[str, ...]]:
    """Return the features and the items of an observation from the scope of its ledger row."""
    record = json.loads(scope)
    return record["features"], tuple(record["items"])


def record_observation(memory: MemoryStore, attempt: Attempt, state_features: Features) -> None:
    """Store an attempt as one row of the ledger, if its context was described. The features are those of the moment of choice."""
    refs = {ref.id: ref for ref in attempt.shown_items if ref.features}
    if not refs and any(ref.role not in (*UNCHOSEN_ROLES, "nothing") for ref in attempt.shown_items):
        return  # another policy chose the items: their features are unknown
    sums = Counter(dict(state_features))
    for ref in refs.values():
        sums.update(ref.features)
    features = {name: round(value, 4) for name, value in sorted(sums.items())}
    scope = json.dumps({"attempt": attempt.memory_id, "features": features, "items": sorted(refs)}, separators=(",", ":"))
    memory.update(attempt.id, attempt.stage, {make_model_id(attempt.candidate.backend): attempt.reward}, 1.0, scope)


def load_observations(memory: MemoryReader, backend: str, stage: Stage) -> list[Observation]:
    """Return the observations of a backend and stage, in an order that does not depend on when they were made."""
    values = memory.scoped_values(make_model_id(backend), stage)
    return [Observation(*parse_scope(scope), value.q) for scope, value in values.items()]


class ValueModel:
    """The posterior over the weights of the features and the records of items."""

    def __init__(self, stage: Stage, observations: Sequence[Observation], candidates: Collection[str], record_visits: float) -> None:
        self.record_visits = record_visits
        self.columns = {name: column for column, name in enumerate(ALL_FEATURES)}
        for item in choose_records(observations, candidates):
            self.columns.setdefault(f"item {item}", len(self.columns))
        rewards, self.scale = normalise_rewards(stage, [one.reward for one in observations])
        design = np.zeros((len(observations), len(self.columns)))
        for row, one in enumerate(observations):
            for name, value in (*one.features.items(), *((f"item {item}", 1.0) for item in one.items)):
                if name in self.columns:
                    design[row, self.columns[name]] = value
        self.fit(design, rewards, PRIOR_WEIGHTS[stage])

    def fit(self, design: np.ndarray, rewards: np.ndarray, prior_weights: Features) -> None:
        """Compute the posterior in closed form."""
        prior = np.array([prior_weights.get(name, 0.0) for name in self.columns])
        precisions = np.full(len(self.columns), self.record_visits)
        precisions[: len(ALL_FEATURES)] = [STATE_PRECISION if name in STATE_FEATURES else FEATURE_PRECISION for name in ALL_FEATURES]
        precision = design.T @ design + np.diag(precisions)
        target = design.T @ rewards + precisions * prior
        self.spread = np.linalg.inv(np.linalg.cholesky(precision)).T
        self.mean = np.linalg.solve(precision, target)

    def draw(self, random: Random, width: float, items: Sequence[str], count: int = 1) -> Draws:
        """Return draws from the posterior, `width` times as far from the mean; items that no observation has shown get a record too."""
        generator = np.random.default_rng(random.getrandbits(64))
        weights = self.mean + width * NOISE * generator.standard_normal((count, len(self.columns))) @ self.spread.T
        records = width * NOISE / sqrt(self.record_visits) * generator.standard_normal((count, len(items)))
        for place, item in enumerate(items):
            if (column := self.columns.get(f"item {item}")) is not None:
                records[:, place] = weights[:, column]
        return Draws(weights[:, : len(ALL_FEATURES)], records)

    def gains(self, draws: Draws, features: Sequence[Features]) -> np.ndarray:
        """Return what showing each item gains in each draw, in normalised reward; `features` are in the order of the drawn items."""
        vectors = np.array([[one.get(name, 0.0) for name in ALL_FEATURES] for one in features]).reshape(-1, len(ALL_FEATURES))
        limit = MAX_GAIN / self.scale
        gains: np.ndarray = np.clip(draws.records + draws.weights @ vectors.T, -limit, limit)
        return gains

    def explain(self, item: str, features: Features) -> dict[str, float]:
        """Return the expected gain of showing an item, by feature, in raw reward."""
        column = self.columns.get(f"item {item}")
        parts = {name: float(self.mean[self.columns[name]]) * value for name, value in features.items() if name in FEATURE_LABELS}
        parts[OWN_RECORD] = 0.0 if column is None else float(self.mean[column])
        factor = self.scale * min(1.0, MAX_GAIN / max(MAX_GAIN, self.scale * abs(sum(parts.values()))))
        return {name: rounded for name, part in parts.items() if (rounded := round(part * factor, 4))}

    def predict(self, features: Features) -> float:
        """Return the expected raw reward of an attempt from its features alone, between -1 and 1."""
        reward = self.scale * sum(float(self.mean[self.columns[name]]) * value for name, value in features.items() if name in self.columns)
        return min(max(reward, -1.0), 1.0)

    def weight(self, name: str) -> float:
        """Return the expected weight of a feature, in raw reward."""
        return float(self.mean[self.columns[name]]) * self.scale


def choose_records(observations: Iterable[Observation], candidates: Collection[str]) -> list[str]:
    """Return the items whose own record is estimated: candidates first, then the items that were shown most often."""
    counts = Counter(item for one in observations for item in one.items)
    return sorted(counts, key=lambda item: (item not in candidates, -counts[item], item))[:MAX_RECORDS]


def normalise_rewards(stage: Stage, rewards: Sequence[float]) -> tuple[np.ndarray, float]:
    """Return the rewards on the scale of the prior, and the raw reward that one unit of it stands for."""
    raw = np.array(rewards, dtype=float)
    if stage is Stage.DRAFT or not len(raw):
        return raw, 1.0
    scale = max(sqrt(float(raw @ raw) / len(raw)), MIN_SCALE)
    return np.clip(raw / scale, -MAX_REWARD, MAX_REWARD), scale
