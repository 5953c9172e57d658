"""Estimates the cost of an experiment: it counts attempts, and takes time and money per attempt from earlier runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from evokernel.core.config import RunConfig
from evokernel.core.errors import UserError
from evokernel.core.records import Attempt, Usage
from evokernel.core.run import Run
from evokernel.experiments.runner import TasksByGroup, task_patterns
from evokernel.experiments.spec import ExperimentSpec
from evokernel.reports import metrics

RunKind = tuple[str, str, str]
"""Backend, generator and model; the model is empty for a generator without one."""
MAX_GAP_MEDIANS, MAX_GAP_S = 10, 300.0
"""A gap between two attempts of an active run: at most N times the median gap, or this many seconds if that is more."""


class AttemptRate(NamedTuple):
    """Cost of attempts of one kind, over all earlier runs."""

    attempts: int
    seconds_per_attempt: float | None
    """Wall time per attempt; attempts of one run overlap."""
    usage: Usage


class CostEstimate(NamedTuple):
    """Estimated cost of one arm or pack, over all seeds."""

    name: str
    part: str
    """`arm` or `memory pack`."""
    operators: int
    attempts: int
    """An upper bound: a run may stop at the first correct kernel."""
    kind: RunKind
    rate: AttemptRate | None

    @property
    def seconds(self) -> float | None:
        """Estimated wall time; None if no earlier run is known."""
        return self.rate.seconds_per_attempt * self.attempts if self.rate and self.rate.seconds_per_attempt is not None else None

    @property
    def cost_usd(self) -> float | None:
        """0 for a generator without a model; None if the cost is unknown."""
        if not self.rate:
            return 0.0 if self.kind[1] in OFFLINE_GENERATORS else None
        if not self.rate.usage.calls:
            return 0.0
        cost = self.rate.usage.cost_usd
        return None if cost is None else cost / self.rate.attempts * self.attempts


OFFLINE_GENERATORS = ("template_search", "replay", "from_files")
"""Generators that call no model."""


def estimate_costs(spec: ExperimentSpec, tasks: TasksByGroup, earlier_runs: Iterable[Path]) -> list[CostEstimate]:
    """Estimate the cost of every pack and arm."""
    rates = measure_rates(earlier_runs)
    estimates = []
    for pack in (pack for pack in spec.packs if not pack.source):  # a derived pack needs no attempts
        patterns = task_patterns(tasks, pack.groups)
        estimates.append(estimate_part(spec, pack.name, "memory pack", spec.run_config(pack.settings), patterns, rates))
    for arm in spec.arms:
        if not arm.is_missing_setting():
            patterns = task_patterns(tasks, spec.groups_of_arm(arm))
            estimates.append(estimate_part(spec, arm.name, "arm", spec.run_config(arm.settings), patterns, rates))
    return estimates


def estimate_part(
    spec: ExperimentSpec, name: str, part: str, config: RunConfig, tasks: tuple[str, ...], rates: dict[RunKind, AttemptRate]
) -> CostEstimate:
    """Estimate the cost of one pack or arm."""
    kind = run_kind(config)
    return CostEstimate(name, part, len(tasks), spec.seeds * len(tasks) * config.budget, kind, rates.get(kind))


def run_kind(config: RunConfig) -> RunKind:
    """Return the backend, generator and model of a run."""
    return config.plugin_name("backend"), config.plugin_name("generator"), str(config.plugin_settings("generator").get("model", ""))


def measure_rates(folders: Iterable[Path]) -> dict[RunKind, AttemptRate]:
    """Return the cost per attempt of the runs below these folders, by kind."""
    rates: dict[RunKind, AttemptRate] = {}
    for run in open_runs(folders):
        attempts = run.attempts()
        seconds = active_seconds(attempts)
        if not attempts or seconds is None:
            continue
        before = rates.get(run_kind(run.config), AttemptRate(0, 0.0, Usage()))
        total = (before.seconds_per_attempt or 0.0) * before.attempts + seconds
        count = before.attempts + len(attempts)
        rates[run_kind(run.config)] = AttemptRate(count, total / count, before.usage + metrics.total_usage(attempts))
    return rates


def active_seconds(attempts: Sequence[Attempt]) -> float | None:
    """Return the seconds between the first and the last finished attempt without pauses; None if no times were recorded.

    A gap between two attempts counts at most as ten times the median gap, or as five minutes if that is more: the attempts of a round
    may finish together, and then no attempt finishes until a model has answered.
    """
    times = sorted(attempt.finished_at for attempt in attempts if attempt.finished_at > 0)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    if not gaps:
        return None
    longest_gap = max(MAX_GAP_MEDIANS * median(gaps), MAX_GAP_S)
    return sum(min(gap, longest_gap) for gap in gaps)


def open_runs(folders: Iterable[Path]) -> Iterator[Run]:
    """Open the runs below these folders that can be read."""
    for folder in folders:
        for file in sorted(folder.glob("**/run.toml")) if folder.is_dir() else ():
            try:
                yield Run.open(file.parent)
            except UserError:  # damaged, or from another version: skip it
                continue
