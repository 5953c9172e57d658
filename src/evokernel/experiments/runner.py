"""Runs an experiment: it learns the memory packs, then runs every arm and seed in its own folder. It keeps existing packs and runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from evokernel.app.factory import make_part
from evokernel.core.errors import UserError
from evokernel.core.memory_limits import memory_shortage
from evokernel.core.run import Run
from evokernel.experiments import paper_protocol_eval
from evokernel.experiments.arm_runs import (
    Listener,
    ResultsByArm,
    complete_run,
    is_finished,
    learn_pack,
    make_arm_run,
    refuse_contamination,
)
from evokernel.experiments.misleading import write_misleading_pack
from evokernel.experiments.run_session import RunSession
from evokernel.experiments.spec import ArmSpec, ExperimentSpec, PackSpec
from evokernel.reports.metrics import TaskResult
from evokernel.suites.lint_checks import lint_task
from evokernel.suites.loader import TaskFile, describe_task, find_task_files, suites_folder

TasksByGroup = Mapping[str, Sequence[TaskFile]]
"""Task files by group."""


def select_operators(spec: ExperimentSpec, max_per_group: int | None = None) -> dict[str, list[TaskFile]]:
    """Return the operators of each group; with `max_per_group`, at most that many, evenly spaced."""
    selection = {}
    for name, pattern in spec.groups.items():
        tasks = find_task_files(pattern)
        count = len(tasks) if max_per_group is None else min(max_per_group, len(tasks))
        selection[name] = [tasks[number * len(tasks) // count] for number in range(count)]
    return selection


def describe_unsampled(tasks: TasksByGroup, all_tasks: TasksByGroup, operators: int) -> dict[str, str]:
    """Return the operators that `--max-operators` leaves out, by group."""
    sizes = {name: (len(sample), len(all_tasks[name])) for name, sample in tasks.items()}
    return {
        f"{name}: all but {sample} of {total} operators": f"--max-operators {operators}"
        for name, (sample, total) in sizes.items()
        if sample < total
    }


def filter_runnable(tasks_by_group: TasksByGroup) -> tuple[dict[str, list[TaskFile]], dict[str, str]]:
    """Return the operators that this machine can run, and for each other operator the reason why not."""
    reasons: dict[str, str] = {}
    for file in {file.id: file for tasks in tasks_by_group.values() for file in tasks}.values():
        try:
            if shortage := memory_shortage(describe_task(file)):
                reasons[file.id] = f"needs {shortage}"
        except UserError as error:
            reasons[file.id] = str(error)
    runnable = {group: [file for file in tasks if file.id not in reasons] for group, tasks in tasks_by_group.items()}
    if empty := [group for group, tasks in runnable.items() if not tasks]:
        raise UserError(f"this machine can run no operator of group '{empty[0]}': {next(iter(reasons.values()))}")
    return runnable, reasons


def find_vacuous(tasks_by_group: TasksByGroup) -> frozenset[str]:
    """Return your own operators that a kernel which computes nothing passes, at the paper's tolerance or the task's own.

    The tests of this package show that no shipped operator is vacuous.
    """
    files = [file for tasks in tasks_by_group.values() for file in tasks if not file.path.is_relative_to(suites_folder())]
    findings = {task.id: lint_task(task, task.sizes.get("small", {}), thorough=False) for task in map(describe_task, files)}
    return frozenset(id for id, issues in findings.items() if any(issue.kind == "vacuous" for issue in issues))


def task_patterns(tasks_by_group: TasksByGroup, groups: Sequence[str]) -> tuple[str, ...]:
    """Return patterns for `--tasks` that name the operators of some groups, each once."""
    return tuple(dict.fromkeys(task_pattern(task) for group in groups for task in tasks_by_group[group]))


def task_pattern(task: TaskFile) -> str:
    """Return a pattern for `--tasks`: the path within the suites for a shipped task, the file's path otherwise."""
    if task.path.is_relative_to(suites_folder()) and task.is_backward:
        return task.id
    if task.path.is_relative_to(suites_folder()):
        return task.path.relative_to(suites_folder()).with_suffix("").as_posix()
    return task._replace(path=task.path.absolute()).spec


def run_experiment(
    spec: ExperimentSpec,
    tasks: TasksByGroup,
    folder: Path,
    listen: Listener = lambda run, record: None,
    time_limit_s: float | None = None,
) -> ResultsByArm:
    """Run all arms seed by seed, so that all arms have progressed equally if the experiment is stopped.

    Raises TimeLimitReached when the time is over: what was verified is stored, and the next call continues.
    """
    results: ResultsByArm = {arm.name: {} for arm in spec.arms}
    with RunSession(time_limit_s) as session:
        for seed in range(spec.seeds):
            packs = build_packs(spec, tasks, folder, seed, listen, session)
            for name, task_results in run_arms(spec, tasks, folder, seed, packs, listen, session).items():
                results[name][seed] = add_paper_outcomes(spec, task_results, folder / f"{name}-{seed}", listen, session)
    return results


def learn_packs(spec: ExperimentSpec, tasks: TasksByGroup, folder: Path, listen: Listener, time_limit_s: float | None) -> None:
    """Learn the packs of all seeds. Raises TimeLimitReached when the time is over."""
    with RunSession(time_limit_s) as session:
        for seed in range(spec.seeds):
            build_packs(spec, tasks, folder, seed, listen, session)


def run_arms(
    spec: ExperimentSpec,
    tasks: TasksByGroup,
    folder: Path,
    seed: int,
    packs: Mapping[str, Path],
    listen: Listener = lambda run, record: None,
    session: RunSession | None = None,
) -> dict[str, list[TaskResult]]:
    """Complete the run of every arm with one seed; a finished run is not repeated. `packs` are the files of the packs by name."""
    arm_runs = {
        arm.name: make_arm_run(spec, arm, task_patterns(tasks, spec.groups_of_arm(arm)), folder, seed, packs.get(arm.pack))
        for arm in spec.arms
    }
    for arm_run in arm_runs.values():
        refuse_contamination(arm_run)
    return {name: complete_run(arm_run, listen, session=session) for name, arm_run in arm_runs.items()}


def count_complete_seeds(spec: ExperimentSpec, folder: Path) -> int:
    """Return with how many seeds, counted from the first, the runs of all arms are finished."""
    for seed in range(spec.seeds):
        for arm in spec.arms:
            run_folder = folder / f"{arm.name}-{seed}"
            if not (run_folder / "run.toml").exists():
                return seed
            run = Run.open(run_folder)
            run.config = run.config.model_copy(update={"budget": spec.run_config(arm.settings).budget})  # in memory only
            if not is_finished(run, spec.final_eval):
                return seed
    return spec.seeds


def add_paper_outcomes(
    spec: ExperimentSpec, task_results: list[TaskResult], folder: Path, listen: Listener, session: RunSession
) -> list[TaskResult]:
    """Add outcomes under the paper protocol of attempts that the strict loop rejected, if the experiment reports both protocols."""
    is_needed = spec.final_eval is not None and paper_protocol_eval.is_needed(Run.open(folder), spec.final_eval.get("protocol"))
    return paper_protocol_eval.evaluate_rejected(task_results, folder, listen, session) if is_needed else task_results


def build_packs(
    spec: ExperimentSpec,
    tasks: TasksByGroup,
    folder: Path,
    seed: int,
    listen: Listener = lambda run, record: None,
    session: RunSession | None = None,
) -> dict[str, Path]:
    """Return the files of all packs with this seed, by name; those that exist are kept."""
    packs: dict[str, Path] = {}
    for pack in spec.packs:
        packs[pack.name] = build_pack(spec, pack, tasks, folder / "packs", seed, packs, listen, session)
    return packs


def build_pack(
    spec: ExperimentSpec,
    pack: PackSpec,
    tasks: TasksByGroup,
    folder: Path,
    seed: int,
    packs: Mapping[str, Path],
    listen: Listener,
    session: RunSession | None = None,
) -> Path:
    """Learn a pack with this seed, or make it from an earlier one, and return its file. Each seed has its own pack."""
    if pack.source:
        return derive_pack(spec, pack, folder / f"{pack.name}-{seed}.jsonl", seed, packs[pack.source])
    learner = spec.model_copy(update={"name": f"{spec.name}-pack", "final_eval": None})
    arm = ArmSpec(name=pack.name, settings=pack.settings)
    held_out = task_patterns(tasks, pack.exclude_groups)
    return learn_pack(make_arm_run(learner, arm, task_patterns(tasks, pack.groups), folder, seed), listen, held_out, session)


def derive_pack(spec: ExperimentSpec, pack: PackSpec, file: Path, seed: int, source: Path) -> Path:
    """Return the file of a pack that is made from an earlier one; an existing file is kept."""
    if not file.exists():
        write_misleading_pack(source, file, pack.misleading_share, seed, make_part(spec.run_config(pack.settings), "embedder"))
    return file
