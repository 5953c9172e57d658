"""Carries an experiment out: packs are learned, then every arm and seed is a run in its own folder. What is there is not made again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from evokernel.app.resources import too_large
from evokernel.core.config import merge_settings
from evokernel.core.errors import UserError
from evokernel.core.run import Run
from evokernel.experiments import paper_protocol_eval
from evokernel.experiments.arm_runs import Arm, Found, Listener, Study, Table, conduct, learn_pack
from evokernel.experiments.spec import Learned, Plan, PlannedArm
from evokernel.reference.task_lint import audit
from evokernel.reports.metrics import Tried
from evokernel.tasks.loader import TaskFile, describe, files, home

Operators = Mapping[str, Sequence[TaskFile]]
"""By group."""


def operators(plan: Plan, most: int | None = None) -> dict[str, list[TaskFile]]:
    """Of every group; with `most`, so many of each, spread over the whole."""
    found = {}
    for name, spec in plan.groups.items():
        tasks = files(spec)
        count = len(tasks) if most is None else min(most, len(tasks))
        found[name] = [tasks[number * len(tasks) // count] for number in range(count)]
    return found


def sifted(given: Operators) -> tuple[dict[str, list[TaskFile]], dict[str, str]]:
    """The operators that can be tried on this machine; of the others, why not."""
    reasons: dict[str, str] = {}
    for file in {file.id: file for tasks in given.values() for file in tasks}.values():
        try:
            if why := too_large(describe(file)):
                reasons[file.id] = f"needs {why}"
        except UserError as error:
            reasons[file.id] = str(error)
    kept = {group: [file for file in tasks if file.id not in reasons] for group, tasks in given.items()}
    if empty := [group for group, tasks in kept.items() if not tasks]:
        raise UserError(f"no operator of group '{empty[0]}' can be tried here: {next(iter(reasons.values()))}")
    return kept, reasons


def vacuous(given: Operators) -> frozenset[str]:
    """Operators of yours that something passes for which computes nothing, at the published tolerance or the task's own.

    Of those that come with the package it is known that there is none.
    """
    tasks = [describe(file) for tasks in given.values() for file in tasks if not file.path.is_relative_to(home())]
    looked = {task.id: audit(task, task.sizes.get("small", {}), thorough=False) for task in tasks}
    return frozenset(id for id, findings in looked.items() if any(finding.kind == "vacuous" for finding in findings))


def specs(given: Operators, groups: Sequence[str]) -> tuple[str, ...]:
    """What `--tasks` takes for the operators of some groups, each once."""
    return tuple(dict.fromkeys(spec(task) for group in groups for task in given[group]))


def spec(task: TaskFile) -> str:
    """A shipped task by its place in its suite, any other by its file."""
    if task.path.is_relative_to(home()):
        return task.path.relative_to(home()).with_suffix("").as_posix()
    return str(task.path.absolute())


def carry_out(plan: Plan, given: Operators, folder: Path, listen: Listener = lambda run, made: None) -> Found:
    """Seed by seed, so that all arms have got equally far when it is stopped."""
    found: Found = {arm.name: {} for arm in plan.arms}
    for seed in range(plan.seeds):
        packs = {pack.name: learned(plan, pack, given, folder / "packs", seed, listen) for pack in plan.packs}
        made = tuple(arm(plan, one, given, packs) for one in plan.arms)
        study = Study(name=plan.name, tasks=(), arms=made, seeds=(seed,), settings=plan.settings, again=plan.again)
        for name, by_seed in conduct(study, folder, listen).items():
            found[name] |= {seed: by_both(plan, tries, folder / f"{name}-{seed}", listen) for seed, tries in by_seed.items()}
    return found


def by_both(plan: Plan, tries: list[Tried], folder: Path, listen: Listener) -> list[Tried]:
    """With the published protocol's verdicts on what a strict loop refused, where it is to be told beside."""
    is_wanted = plan.again is not None and paper_protocol_eval.is_wanted(Run.open(folder), plan.again.get("protocol"))
    return paper_protocol_eval.judged(tries, folder, listen) if is_wanted else tries


def arm(plan: Plan, planned: PlannedArm, given: Operators, packs: Mapping[str, Path]) -> Arm:
    tasks = specs(given, plan.groups_of(planned))
    return Arm(name=planned.name, settings=planned.settings, tasks=tasks, pack=packs.get(planned.pack))


def learned(plan: Plan, pack: Learned, given: Operators, folder: Path, seed: int, listen: Listener) -> Path:
    """The file of a pack, learned with this seed: what memory is worth depends on how it came about, too."""
    table: Table = {}
    for more in (plan.settings, pack.settings):
        merge_settings(table, more)
    study = Study(name=f"{plan.name}-pack", tasks=specs(given, pack.groups), arms=(Arm(name=pack.name),), seeds=(seed,), settings=table)
    held_out = [task.id for group in pack.without for task in given[group]]
    return learn_pack(study, folder, listen, held_out)
