"""Holds the results of an experiment's runs, by arm, group and seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from evokernel.core.records import Attempt
from evokernel.core.run import Run
from evokernel.experiments.arm_runs import ResultsByArm
from evokernel.experiments.axis_effects import SearchComparison
from evokernel.experiments.metrics import Metric, ResultsBySeed, compiled_within, correct_within, exclude_vacuous, passes_protocol
from evokernel.experiments.runner import TasksByGroup
from evokernel.experiments.spec import ExperimentSpec
from evokernel.reports import metrics
from evokernel.reports.metrics import TaskResult

ALL_OPERATORS = "all operators"
PROTOCOLS = {"paper": "as published (1e-2)", "strict": "strict"}


@dataclass(frozen=True)
class Results:
    """The results of an experiment, with its specification."""

    spec: ExperimentSpec
    by_arm: ResultsByArm
    tasks: TasksByGroup
    folder: Path
    vacuous: frozenset[str] = frozenset()
    """Operators that a kernel which computes nothing passes, at the paper's tolerance or the task's own."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Arms and operators that were not run, and why."""
    command: str = ""
    """The command line that started the experiment."""

    @cached_property
    def groups(self) -> dict[str, set[str]]:
        """The ids of the operators in each reported group."""
        return {name: {task.id for task in self.tasks[name]} for name in self.spec.report_groups or self.spec.groups}

    @cached_property
    def attempts(self) -> dict[str, list[Attempt]]:
        """The attempts of every arm, over all seeds."""
        return {arm: [attempt for result in flatten_seeds(seeds) for attempt in result.attempts] for arm, seeds in self.by_arm.items()}

    @cached_property
    def pack_results(self) -> dict[str, list[TaskResult]]:
        """The results of the runs that learned the memory packs, over all seeds."""
        by_pack: dict[str, list[TaskResult]] = {}
        for pack in self.spec.packs:
            for seed in range(self.spec.seeds):
                folder = self.folder / "packs" / f"{pack.name}-{seed}"
                if (folder / "run.toml").exists():
                    run = Run.open(folder)
                    by_pack.setdefault(pack.name, []).extend(metrics.collect_results(run, run.attempts()))
        return by_pack

    @cached_property
    def runs(self) -> list[Run]:
        """The runs of the arms, sorted by name."""
        return [Run.open(file.parent) for file in sorted(self.folder.glob("*/run.toml"))]

    def arm_results(self, group: str) -> dict[str, dict[int, list[TaskResult]]]:
        """Return the arms that were run on all operators of a group, with its results by seed in the group's order.

        Comparisons pair results by position, and a run has another order if groups overlap.
        """
        return self.select_results(task.id for task in self.tasks[group])

    def pooled_results(self) -> dict[str, dict[int, list[TaskResult]]]:
        """Return the arms that were run on the operators of all reported groups, with their results by seed."""
        return self.select_results(task.id for group in self.groups for task in self.tasks[group])

    def select_results(self, ids: Iterable[str]) -> dict[str, dict[int, list[TaskResult]]]:
        """Return the arms that were run on all these operators, with their results by seed in this order."""
        order = list(dict.fromkeys(ids))
        by_arm = {}
        for arm, seeds in self.by_arm.items():
            results_by_id = {seed: {result.task.id: result for result in task_results} for seed, task_results in seeds.items()}
            if results_by_id and all(by_id.keys() >= set(order) for by_id in results_by_id.values()):
                by_arm[arm] = {seed: [by_id[id] for id in order] for seed, by_id in results_by_id.items()}
        return by_arm

    @cached_property
    def searches(self) -> dict[str, SearchComparison]:
        """The searches of the arms on all operators, then on each group if there are several; empty if the experiment has no axes."""
        if not self.spec.axes:
            return {}
        by_name = {ALL_OPERATORS: self.pooled_results()} if len(self.groups) > 1 else {}
        by_name |= {group: self.arm_results(group) for group in self.groups}
        return {name: SearchComparison(self.spec, arms) for name, arms in by_name.items() if arms}

    def operator_count(self, group: str) -> int:
        """Return the number of operators of a group that the arms were run on."""
        return max((len(task_results) for seeds in self.arm_results(group).values() for task_results in seeds.values()), default=0)

    def first_seed_results(self) -> dict[str, list[TaskResult]]:
        """Return every arm's results on reported operators with the first seed: a timeline shows one run."""
        ids = set().union(*self.groups.values())
        return {arm: [result for result in seeds[min(seeds)] if result.task.id in ids] for arm, seeds in self.by_arm.items() if seeds}

    def reported_results(self) -> dict[str, list[TaskResult]]:
        """Return every arm's results on reported operators, over all seeds."""
        ids = set().union(*self.groups.values())
        return {arm: [result for result in flatten_seeds(seeds) if result.task.id in ids] for arm, seeds in self.by_arm.items()}

    @property
    def loop_protocol(self) -> str:
        """The protocol of the verifier during the runs."""
        return self.spec.run_config({}).protocol

    @property
    def final_protocol(self) -> str | None:
        """The protocol of the re-evaluation; None without one."""
        return None if self.spec.final_eval is None else str(self.spec.final_eval.get("protocol", self.loop_protocol))

    def rate_metrics(self) -> list[Metric]:
        """Return the rates to report: CR and Acc in round 1 and at the end, under the other protocol, and without vacuous operators."""
        if self.final_protocol and self.final_protocol != self.loop_protocol:
            other = [Metric(f"Acc, {PROTOCOLS[self.final_protocol]}", passes_protocol(self.final_protocol), "share")]
        else:
            other = [Metric("Acc, re-evaluated", lambda result: float(result.is_solved), "share")] if self.final_protocol else []
        return [
            Metric("CR, round 1", compiled_within(1), "share"),
            Metric("CR", compiled_within(), "share"),
            Metric("Acc, round 1", correct_within(1), "share"),
            Metric("Acc", correct_within(), "share"),
            *other,
            Metric("Acc, not vacuous", exclude_vacuous(self.vacuous, correct_within()), "share"),
        ]


def flatten_seeds(seeds: ResultsBySeed) -> list[TaskResult]:
    """Return the results of all seeds as one list."""
    return [result for task_results in seeds.values() for result in task_results]


def baseline_names(attempts: Sequence[Attempt]) -> list[str]:
    """Return the baselines that the attempts were timed with."""
    return sorted({name for attempt in attempts for name in attempt.outcome.baseline_us})
