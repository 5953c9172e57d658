"""Carries an experiment out: packs are learned, then every arm and seed is a run in its own folder. What is there is not made again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from evokernel.core.config import merge
from evokernel.experiments.arms import Arm, Found, Listener, Study, Table, conduct, learn_pack
from evokernel.experiments.plans import Learned, Plan, PlannedArm
from evokernel.tasks.loader import TaskFile, files, home

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
            found[name] |= by_seed
    return found


def arm(plan: Plan, planned: PlannedArm, given: Operators, packs: Mapping[str, Path]) -> Arm:
    tasks = specs(given, plan.groups_of(planned))
    return Arm(name=planned.name, settings=planned.settings, tasks=tasks, pack=packs.get(planned.pack))


def learned(plan: Plan, pack: Learned, given: Operators, folder: Path, seed: int, listen: Listener) -> Path:
    """The file of a pack, learned with this seed: what memory is worth depends on how it came about, too."""
    table: Table = {}
    for more in (plan.settings, pack.settings):
        merge(table, more)
    study = Study(name=f"{plan.name}-pack", tasks=specs(given, pack.groups), arms=(Arm(name=pack.name),), seeds=(seed,), settings=table)
    held_out = [task.id for group in pack.without for task in given[group]]
    return learn_pack(study, folder, listen, held_out)
