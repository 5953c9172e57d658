"""What the runs of an experiment left behind, by arm, group and seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from evokernel.core.records import Attempt
from evokernel.core.run import Run
from evokernel.experiments.arm_runs import Found
from evokernel.experiments.metrics import Measure, Seeds, compiled, feasible, holds, without
from evokernel.experiments.runner import Operators
from evokernel.experiments.spec import Plan
from evokernel.reports import metrics
from evokernel.reports.metrics import Tried

PROTOCOLS = {"paper": "as published (1e-2)", "strict": "strict"}


@dataclass(frozen=True)
class Results:
    """An experiment that was carried out."""

    plan: Plan
    found: Found
    given: Operators
    folder: Path
    vacuous: frozenset[str] = frozenset()
    """Operators that something passes for which computes nothing, at one of the two tolerances."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Arms and operators that were not tried, and why."""
    command: str = ""
    """What was typed."""

    @cached_property
    def groups(self) -> dict[str, set[str]]:
        """Operators that are told of."""
        return {name: {task.id for task in self.given[name]} for name in self.plan.told or self.plan.groups}

    @cached_property
    def attempts(self) -> dict[str, list[Attempt]]:
        """Of every arm, all seeds together."""
        return {arm: [attempt for tried in every(seeds) for attempt in tried.attempts] for arm, seeds in self.found.items()}

    @cached_property
    def packs(self) -> dict[str, list[Tried]]:
        """What was tried for memory packs, all seeds together."""
        made: dict[str, list[Tried]] = {}
        for pack in self.plan.packs:
            for seed in range(self.plan.seeds):
                folder = self.folder / "packs" / f"{pack.name}-{seed}"
                if (folder / "run.toml").exists():
                    run = Run.open(folder)
                    made.setdefault(pack.name, []).extend(metrics.of_run(run, run.attempts()))
        return made

    @cached_property
    def runs(self) -> list[Run]:
        """Those of the arms, by name."""
        return [Run.open(file.parent) for file in sorted(self.folder.glob("*/run.toml"))]

    def arms(self, group: str) -> dict[str, dict[int, list[Tried]]]:
        """Those that were tried on the whole of a group, with its operators by seed in the group's order: arms are compared by place.

        A run's own order is another where groups overlap.
        """
        order = list(dict.fromkeys(task.id for task in self.given[group]))
        found = {}
        for arm, seeds in self.found.items():
            known = {seed: {tried.task.id: tried for tried in tries} for seed, tries in seeds.items()}
            if known and all(by_id.keys() >= set(order) for by_id in known.values()):
                found[arm] = {seed: [by_id[id] for id in order] for seed, by_id in known.items()}
        return found

    def operators(self, group: str) -> int:
        """How many an arm was tried on."""
        return max((len(tries) for seeds in self.arms(group).values() for tries in seeds.values()), default=0)

    def first(self) -> dict[str, list[Tried]]:
        """Every arm's operators that are told of, under the first seed: a timeline is that of one run."""
        ids = set().union(*self.groups.values())
        return {arm: [tried for tried in seeds[min(seeds)] if tried.task.id in ids] for arm, seeds in self.found.items() if seeds}

    def told(self) -> dict[str, list[Tried]]:
        """Every arm's operators that are told of, all seeds together."""
        ids = set().union(*self.groups.values())
        return {arm: [tried for tried in every(seeds) if tried.task.id in ids] for arm, seeds in self.found.items()}

    @property
    def loop(self) -> str:
        """The protocol that runs went by."""
        return self.plan.config({}).protocol

    @property
    def again(self) -> str | None:
        """The one by which bests were judged again."""
        return None if self.plan.again is None else str(self.plan.again.get("protocol", self.loop))

    def rates(self) -> list[Measure]:
        """CR and Acc, at the first attempt and at the end; by the other protocol, and without vacuous operators."""
        if self.again and self.again != self.loop:
            other = [Measure(f"Acc, {PROTOCOLS[self.again]}", holds(self.again), "share")]
        else:
            other = [Measure("Acc, judged again", lambda tried: float(tried.solved), "share")] if self.again else []
        return [
            Measure("CR, round 1", compiled(1), "share"),
            Measure("CR", compiled(), "share"),
            Measure("Acc, round 1", feasible(1), "share"),
            Measure("Acc", feasible(), "share"),
            *other,
            Measure("Acc, not vacuous", without(self.vacuous, feasible()), "share"),
        ]


def every(seeds: Seeds) -> list[Tried]:
    """Of all seeds."""
    return [tried for tries in seeds.values() for tried in tries]


def baselines(attempts: Sequence[Attempt]) -> list[str]:
    """What kernels were timed beside."""
    return sorted({name for attempt in attempts for name in attempt.outcome.baseline_us})
