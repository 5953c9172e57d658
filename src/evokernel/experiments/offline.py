"""Offline evaluation: what reward another policy would have earned on the attempts of recorded runs.

The runs are replayed: at every recorded attempt each policy sees the memory of that moment, in which it has learned from the attempts
before, and says what it would show. An attempt counts by how much more often the policy shows the recorded items than the policy that
recorded them did (inverse propensity). The doubly robust estimate adds a model's prediction for everything that was not recorded.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from evokernel.app.factory import make_part
from evokernel.core.bank_uri import ServerUrl
from evokernel.core.errors import UserError
from evokernel.core.opportunities import top_opportunities
from evokernel.core.plugins import accepts_setting, find_plugin, plugin_names
from evokernel.core.protocols import MemoryStore
from evokernel.core.records import Attempt, ContextRef, MemoryItem, Settings, Stage, Task
from evokernel.core.run import Run
from evokernel.core.state import State
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.memory.read_only import ReadOnlyBank
from evokernel.memory.seed_cards import load_seed_cards
from evokernel.policies.item_features import Features, ItemDescriber, describe_state
from evokernel.policies.strategy import MemoryPolicy
from evokernel.policies.value_model import UNCHOSEN_ROLES


class Decision(NamedTuple):
    """A recorded choice, and what a policy would have chosen instead."""

    run: str
    task: str
    stage: Stage
    reward: float
    propensity: float
    match: float
    """The probability that the policy shows the recorded items."""
    recorded: Features
    """Features of the recorded context, as in an observation of the value model."""
    chosen: tuple[Features, ...]
    """Features of the contexts that the policy draws."""

    @property
    def weight(self) -> float:
        """How much more probable the recorded choice is under the policy than under the one that recorded it."""
        return self.match / self.propensity


def read_attempts(run: Run) -> list[Attempt]:
    """Return the attempts of a run. Raises UserError if none has a propensity, or if its memory cannot be replayed."""
    attempts, location = run.attempts(), run.config.bank_location(run.folder)
    if not any(attempt.propensity for attempt in attempts):
        policy = run.config.plugin_name("policy")
        raise UserError(
            f"{run.folder} has no propensities: its policy '{policy}' does not draw at random, or an older evokernel made the run. "
            "Record a run with --policy contextual, or with --policy value --set policy.epsilon=0.3."
        )
    if isinstance(location, ServerUrl):
        raise UserError(f"{run.folder} has its memory bank on a server. Offline evaluation replays banks in files only.")
    if not location.is_file():
        raise UserError(f"{run.folder} cannot be replayed: its memory bank {location} is missing. Restore the bank.")
    return attempts


@contextmanager
def open_replay(run: Run) -> Iterator[MemoryStore]:
    """Open a copy of a run's bank as it was when the run began; the bank itself does not change."""
    config = run.config
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copy(str(config.bank_location(run.folder)), folder))
        with Bank.open(copy, make_part(config, "embedder"), backend=config.plugin_name("backend"), run=config.id) as bank:
            if not bank.is_resumed:
                raise UserError(f"{run.folder} cannot be replayed: its memory bank does not contain the run. Restore the bank.")
            bank.add(load_seed_cards(config.plugin_name("backend")))
            yield ReadOnlyBank(bank) if config.memory_read_only else bank


def make_policies(run: Run, name: str, settings: Settings, draws: int) -> list[MemoryPolicy]:
    """Return a policy with as many seeds as draws; a single one if it does not draw at random."""
    if not can_build_contexts(name):
        able = [one for one in plugin_names("policy") if can_build_contexts(one)]
        raise UserError(f"policy '{name}' cannot be evaluated offline: it has no build_context. Policies that have one: {', '.join(able)}.")
    extra = {"propensity_draws": 0} if accepts_setting("policy", name, "propensity_draws") else {}
    count = draws if accepts_setting("policy", name, "seed") else 1
    configs = [
        run.config.model_copy(update={"policy": {"name": name, **extra, **settings}, "seed": run.config.seed + seed})
        for seed in range(count)
    ]
    return [make_part(config, "policy") for config in configs]


def can_build_contexts(name: str) -> bool:
    """Return whether a policy builds the context for a given start point."""
    return hasattr(find_plugin("policy", name), "build_context")


def evaluate_policy(run: Run, name: str, settings: Settings, draws: int) -> list[Decision]:
    """Replay a run and return what a policy would have chosen at each attempt with a propensity."""
    attempts, tasks = read_attempts(run), {task.id: task for task in run.tasks}
    policies = make_policies(run, name, settings, draws)
    history: dict[str, list[Attempt]] = {task: [] for task in tasks}
    decisions = []
    with open_replay(run) as memory:
        for turn in group_by_turn(run, attempts):
            states = [make_state(tasks[attempt.task], history, attempt) for attempt in turn]
            for state, attempt in zip(states, turn, strict=True):
                if attempt.propensity:
                    decisions.append(decide(state, attempt, memory, policies))
            for state, attempt in zip(states, turn, strict=True):
                described = describe_refs(state, attempt, memory)
                policies[0].learn(state, described, memory)
                memory.add(distill(state.task, attempt, state.attempts))
                history[attempt.task].append(attempt)
    return decisions


def make_state(task: Task, history: Mapping[str, Sequence[Attempt]], attempt: Attempt) -> State:
    """Return the state in which a recorded attempt was chosen."""
    return State(task=task, attempts=tuple(history[task.id]), round=attempt.round)


def group_by_turn(run: Run, attempts: Iterable[Attempt]) -> Iterator[list[Attempt]]:
    """Yield the attempts whose contexts were chosen from the same memory: those of a round, or single ones of a streaming run."""
    if run.config.schedule == "streaming":
        yield from ([attempt] for attempt in attempts)
    else:
        yield from (list(group) for _, group in groupby(attempts, key=lambda attempt: attempt.round))


def find_start(state: State, attempt: Attempt) -> Attempt | None:
    """Return the start point of a recorded attempt."""
    return next((earlier for earlier in state.attempts if earlier.id == attempt.start_point), None)


def decide(state: State, attempt: Attempt, memory: MemoryStore, policies: Sequence[MemoryPolicy]) -> Decision:
    """Return what a policy would have chosen where an attempt was recorded."""
    start = find_start(state, attempt)
    contexts = [policy.build_context(state, memory, start) for policy in policies]
    recorded = [*attempt.shown_items, *attempt.truncated_items]
    matches = sum(chosen_ids(entry.ref for entry in context.items) == chosen_ids(recorded) for context in contexts)
    describer = ItemDescriber(state, memory, start)
    return Decision(
        run=attempt.run,
        task=attempt.task,
        stage=attempt.stage,
        reward=attempt.reward,
        propensity=attempt.propensity.probability if attempt.propensity else 1.0,
        match=matches / len(contexts),
        recorded=sum_features(describer, memory, recorded),
        chosen=tuple(sum_features(describer, memory, [entry.ref for entry in context.items]) for context in contexts),
    )


def chosen_ids(refs: Iterable[ContextRef]) -> frozenset[str]:
    """Return what a policy chose of a context: its valued items, and the places that it left empty."""
    return frozenset(ref.id for ref in refs if ref.role not in UNCHOSEN_ROLES)


def describe_items(describer: ItemDescriber, memory: MemoryStore, refs: Iterable[ContextRef]) -> dict[str, dict[str, float]]:
    """Return the features of the chosen items of a context, each after those before it."""
    cause = "known" if describer.start and top_opportunities(describer.start) else ""
    items = memory.get([ref.id for ref in refs if ref.role not in (*UNCHOSEN_ROLES, "nothing")])
    shown: list[MemoryItem] = []
    features = {}
    for item in items:
        features[item.id] = describer.describe(item, shown, cause)
        shown.append(item)
    return features


def sum_features(describer: ItemDescriber, memory: MemoryStore, refs: Sequence[ContextRef]) -> Features:
    """Return the features of a context: those of the task, and the sums over the chosen items."""
    sums = dict(describe_state(describer.state, describer.start))
    for features in describe_items(describer, memory, refs).values():
        for name, value in features.items():
            sums[name] = sums.get(name, 0.0) + value
    return sums


def describe_refs(state: State, attempt: Attempt, memory: MemoryStore) -> Attempt:
    """Return the attempt with the features of its items, which a policy without features did not record, so that others can learn."""
    if any(ref.features for ref in attempt.shown_items):
        return attempt
    described = describe_items(ItemDescriber(state, memory, find_start(state, attempt)), memory, attempt.shown_items)
    refs = tuple(ref.model_copy(update={"features": dict(described.get(ref.id, {}))}) for ref in attempt.shown_items)
    return attempt.model_copy(update={"shown_items": refs})
