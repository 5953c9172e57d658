"""Runs the same tasks with several arms and seeds. Each arm and seed is a run in its own folder, which can be resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.app import factory
from evokernel.core.config import RunConfig, merge_settings, parse_config
from evokernel.core.errors import UserError
from evokernel.core.final_results import FinalResult
from evokernel.core.records import Attempt, Record
from evokernel.core.run import Run
from evokernel.engine.final_eval import pending_reevaluations, reevaluate_best
from evokernel.engine.loop import Engine
from evokernel.experiments.spec import final_eval_config
from evokernel.memory import packs
from evokernel.memory.bank import Bank
from evokernel.memory.pack_contamination import refuse_contaminated_pack
from evokernel.memory.pack_file import PackFilters, read_pack
from evokernel.reports import metrics
from evokernel.reports.metrics import TaskResult
from evokernel.tasks.loader import load_tasks

CHANGEABLE_SETTINGS = ("budget", "workers", "concurrency", "memory")
"""Settings that may differ when runs are resumed: none of them changes an attempt."""
Table = dict[str, Any]
ResultsByArm = dict[str, dict[int, list[TaskResult]]]
"""Results by arm and seed."""
Listener = Callable[[Run, Attempt | FinalResult], None]
"""Is called with every new attempt and re-evaluation of a run."""


class Arm(Record):
    """One variant: its settings and its memory."""

    name: str
    settings: Table = {}
    """As in a settings file; they override those of the matrix."""
    tasks: tuple[str, ...] = ()
    """Its own tasks; empty: those of the matrix."""
    pack: Path | None = None
    """The memory pack it starts with; None: it starts with seed knowledge only."""


class RunMatrix(Record):
    """Arms × seeds: every arm is run with every seed, by default on the same tasks."""

    name: str
    tasks: tuple[str, ...]
    """Patterns as in `--tasks`."""
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...] = (0,)
    settings: Table = {}
    """Settings of all arms."""
    final_eval: Table | None = None
    """Settings of the re-evaluation, which override the run's; None: the best kernels are not re-evaluated."""


class ArmRun(NamedTuple):
    """The run of one arm with one seed."""

    arm: Arm
    seed: int
    folder: Path


def list_arm_runs(matrix: RunMatrix, folder: Path) -> list[ArmRun]:
    """Return the runs ordered by seed, so that all arms have progressed equally if the experiment is stopped."""
    return [ArmRun(arm, seed, folder / f"{arm.name}-{seed}") for seed in matrix.seeds for arm in matrix.arms]


def resolve_settings(matrix: RunMatrix, arm_run: ArmRun) -> RunConfig:
    """Return the settings of one run."""
    bank = {"memory": str((arm_run.folder / "memory.db").absolute())} if arm_run.arm.pack else {"fresh": True}
    table: Table = {}
    for settings in (matrix.settings, arm_run.arm.settings, bank):
        merge_settings(table, settings)
    tasks = arm_run.arm.tasks or matrix.tasks
    fixed = {"id": f"{matrix.name}-{arm_run.arm.name}-{arm_run.seed}", "seed": arm_run.seed, "tasks": ",".join(tasks)}
    return parse_config({**table, **fixed})


def run_arms(matrix: RunMatrix, folder: Path, listen: Listener = lambda run, record: None) -> ResultsByArm:
    """Complete every run; a finished run is not repeated."""
    for arm in matrix.arms:
        refuse_contaminated_arm(arm, matrix)
    results: ResultsByArm = {arm.name: {} for arm in matrix.arms}
    for arm_run in list_arm_runs(matrix, folder):
        results[arm_run.arm.name][arm_run.seed] = complete_run(matrix, arm_run, listen)
    return results


def refuse_contaminated_arm(arm: Arm, matrix: RunMatrix) -> None:
    """Raise if the arm's pack contains data on the tasks it is evaluated on."""
    if arm.pack:
        items = [packed.item for packed in read_pack(arm.pack).items]
        refuse_contaminated_pack(arm.pack, items, load_tasks(",".join(arm.tasks or matrix.tasks)))


def complete_run(
    matrix: RunMatrix, arm_run: ArmRun, listen: Listener = lambda run, record: None, may_change: Sequence[str] = ()
) -> list[TaskResult]:
    """Start or resume one run and complete it; settings in `may_change` may differ from those of the existing run."""
    config = resolve_settings(matrix, arm_run)
    if (arm_run.folder / "run.toml").exists():
        run = Run.open(arm_run.folder)
        refuse_changed_settings(run, config, (*CHANGEABLE_SETTINGS, *may_change))
        refuse_changed_pack(arm_run)
        updates = {name: getattr(config, name) for name in ("budget", "workers", *may_change)}
        run.config = run.config.model_copy(update=updates)
        if is_finished(run, matrix.final_eval):
            return metrics.collect_results(run, run.attempts())
        engine = factory.resume_engine(arm_run.folder, **updates)
    else:
        if arm_run.arm.pack:
            import_pack_into_bank(arm_run.arm.pack, config)
        engine = factory.create_engine(config, arm_run.folder)
    try:
        for record in run_engine(engine, matrix.final_eval):
            listen(engine.run, record)
    finally:
        engine.close()
    run = Run.open(arm_run.folder)
    return metrics.collect_results(run, run.attempts())


def run_engine(engine: Engine, final_eval: Table | None) -> Iterator[Attempt | FinalResult]:
    """Make the attempts, then re-evaluate the best kernels; `final_eval` may set another clock or other baselines."""
    yield from engine.make_attempts()
    if final_eval is not None:
        engine.run.config = final_eval_config(engine.run.config, final_eval)  # in memory only: run.toml is unchanged
        yield from reevaluate_best(engine)


def is_finished(run: Run, final_eval: Table | None) -> bool:
    """Whether all attempts and all re-evaluations are done."""
    return run.is_complete(run.attempts()) and (final_eval is None or not pending_reevaluations(run))


def refuse_changed_settings(run: Run, config: RunConfig, changeable: Sequence[str]) -> None:
    """Raise if the run was started with other settings than `config`, except changeable ones."""
    old, new = (one.model_dump(mode="json", exclude=set(changeable)) for one in (run.config, config))
    if differences := [f"{name} = {old[name]!r}, not {new[name]!r}" for name in old if old[name] != new[name]]:
        raise UserError(f"{run.folder} was started with {'; '.join(differences)}. Choose another folder, or use the same settings.")


def refuse_changed_pack(arm_run: ArmRun) -> None:
    """Raise if the run started with another memory pack; its bank holds the hash of the pack."""
    bank_path = arm_run.folder / "memory.db"
    if arm_run.arm.pack and bank_path.exists():
        with Bank.open_reader(bank_path) as bank:
            old_hashes, new_hash = list(bank.count_pack_items()), read_pack(arm_run.arm.pack).sha256
        if old_hashes and new_hash not in old_hashes:
            difference = f"memory pack {old_hashes[0][:12]}, but {arm_run.arm.pack} is now {new_hash[:12]}"
            raise UserError(f"{arm_run.folder} was started with {difference}. Choose another folder, or restore that pack.")


def import_pack_into_bank(pack: Path, config: RunConfig) -> None:
    """Create a bank that contains only the pack."""
    path = Path(config.memory)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    packs.import_pack_file(path, pack, factory.make_part(config, "embedder"))


def learn_pack(matrix: RunMatrix, folder: Path, listen: Listener = lambda run, record: None, held_out: Sequence[str] = ()) -> Path:
    """Run a matrix of one arm and one seed and export its memory as a pack, without the held-out tasks.

    An existing pack is kept, with or without its run; if its run exists, the settings must be the same.
    """
    (arm_run,) = list_arm_runs(matrix, folder)
    file = folder / f"{arm_run.folder.name}.jsonl"
    if file.exists():
        if (arm_run.folder / "run.toml").exists():
            refuse_changed_settings(Run.open(arm_run.folder), resolve_settings(matrix, arm_run), CHANGEABLE_SETTINGS)
    else:
        complete_run(matrix, arm_run, listen)
        filters = PackFilters(backend=resolve_settings(matrix, arm_run).plugin_name("backend"), exclude=tuple(held_out))
        packs.export_pack(arm_run.folder / "memory.db", file, filters)
    return file
