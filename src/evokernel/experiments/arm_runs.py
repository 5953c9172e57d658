"""One run of an experiment: an arm, or the run that a memory pack is learned by, with one seed. It has its own folder and is resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from evokernel.app import factory
from evokernel.app.run_lifecycle import SessionRecorder
from evokernel.core.config import RunConfig
from evokernel.core.errors import UserError
from evokernel.core.final_results import FinalResult
from evokernel.core.protocols import Executor
from evokernel.core.records import Attempt
from evokernel.core.run import Run
from evokernel.engine.final_eval import INTERRUPTED, pending_reevaluations, reevaluate_best
from evokernel.engine.loop import Engine
from evokernel.experiments import outcome_reuse
from evokernel.experiments.run_session import RunSession, TimeLimitReached
from evokernel.experiments.spec import ArmSpec, ExperimentSpec, Table, final_eval_config
from evokernel.memory import packs
from evokernel.memory.bank import Bank
from evokernel.memory.bank_contamination import find_contamination
from evokernel.memory.pack_contamination import refuse_contaminated_pack
from evokernel.memory.pack_file import PackFilters, read_pack
from evokernel.reports import metrics
from evokernel.reports.metrics import TaskResult
from evokernel.suites.loader import load_tasks

CHANGEABLE_SETTINGS = ("budget", "workers", "concurrency", "memory")
"""Settings that may differ when runs are resumed: none of them changes an attempt that was made. Strategies that plan with the budget, such
as `beam`, group earlier attempts by the new one."""
ResultsByArm = dict[str, dict[int, list[TaskResult]]]
"""Results by arm and seed."""
Listener = Callable[[Run, Attempt | FinalResult], None]
"""Is called with every new attempt and re-evaluation of a run."""


class ArmRun(NamedTuple):
    """The run of one arm with one seed, with all settings resolved."""

    folder: Path
    config: RunConfig
    pack: Path | None = None
    """The memory pack it starts with; None: it starts with seed knowledge only."""
    final_eval: Table | None = None
    """Settings of the re-evaluation, which override the run's; None: the best kernels are not re-evaluated."""
    outcomes: Path | None = None
    """The folder of outcomes that the runs of the experiment share; None: every kernel is verified."""
    shares_measured: bool = False
    """Whether they share measured latencies, too."""


def make_arm_run(spec: ExperimentSpec, arm: ArmSpec, tasks: Sequence[str], folder: Path, seed: int, pack: Path | None = None) -> ArmRun:
    """Resolve the settings of an arm's run on these tasks (patterns as in `--tasks`), in a subfolder of `folder`."""
    run_folder = folder / f"{arm.name}-{seed}"
    bank = {"memory": str((run_folder / "memory.db").absolute())} if pack else {"fresh": True}
    fixed = {"id": f"{spec.name}-{arm.name}-{seed}", "seed": seed, "tasks": ",".join(tasks)}
    outcomes = folder / outcome_reuse.FOLDER if spec.reuse_outcomes else None
    config = spec.run_config(arm.settings, {**bank, **fixed})
    return ArmRun(run_folder, config, pack, spec.final_eval, outcomes, spec.reuse_outcomes == "measured")


def refuse_contamination(arm_run: ArmRun) -> None:
    """Raise if the run's pack contains data on the tasks it is evaluated on."""
    if arm_run.pack:
        items = [packed.item for packed in read_pack(arm_run.pack).items]
        refuse_contaminated_pack(arm_run.pack, items, load_tasks(arm_run.config.tasks))


def complete_run(
    arm_run: ArmRun, listen: Listener = lambda run, record: None, may_change: Sequence[str] = (), session: RunSession | None = None
) -> list[TaskResult]:
    """Start or resume one run and complete it; settings in `may_change` may differ from those of the existing run.

    Raises TimeLimitReached if the time of the session ends before.
    """
    config = arm_run.config
    executor = None
    if (arm_run.folder / "run.toml").exists():
        run = Run.open(arm_run.folder)
        refuse_changed_settings(run, config, (*CHANGEABLE_SETTINGS, *may_change))
        refuse_changed_pack(arm_run)
        updates = {name: getattr(config, name) for name in ("budget", "workers", *may_change)}
        run.config = run.config.model_copy(update=updates)
        if is_finished(run, arm_run.final_eval):
            return metrics.collect_results(run, run.attempts())
        executor = find_shared_executor(session, config)
        engine = factory.resume_engine(arm_run.folder, executor=executor, **updates)
    else:
        executor = find_shared_executor(session, config)
        if arm_run.pack:
            import_pack_into_bank(arm_run.pack, config)
        engine = factory.create_engine(config, arm_run.folder, executor)
    if arm_run.outcomes:
        outcome_reuse.share_outcomes(engine, arm_run.outcomes, arm_run.shares_measured)
    if session:
        session.watch(engine)
    try:
        for record in run_engine(engine, arm_run.final_eval):
            listen(engine.run, record)
        if session:
            session.raise_if_stopped(engine)
    finally:
        engine.close(stop_workers=executor is None)
    run = Run.open(arm_run.folder)
    return metrics.collect_results(run, run.attempts())


def find_shared_executor(session: RunSession | None, config: RunConfig) -> Executor | None:
    """Return the executor that a run shares with the other runs of its session. Raises TimeLimitReached if there is no time left."""
    if session and session.is_over:
        raise TimeLimitReached
    return session.find_executor(config) if session else None


def run_engine(engine: Engine, final_eval: Table | None) -> Iterator[Attempt | FinalResult]:
    """Make the attempts, then re-evaluate the best kernels; `final_eval` may set another clock or other baselines."""
    with SessionRecorder(engine):
        yield from engine.make_attempts()
        if final_eval is not None and engine.stop_reason != INTERRUPTED:
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
    if arm_run.pack and bank_path.exists():
        with Bank.open_reader(bank_path) as bank:
            old_hashes, new_hash = list(bank.count_pack_items()), read_pack(arm_run.pack).sha256
        if old_hashes and new_hash not in old_hashes:
            difference = f"memory pack {old_hashes[0][:12]}, but {arm_run.pack} is now {new_hash[:12]}"
            raise UserError(f"{arm_run.folder} was started with {difference}. Choose another folder, or restore that pack.")


def import_pack_into_bank(pack: Path, config: RunConfig) -> None:
    """Create a bank that contains only the pack."""
    path = Path(config.memory)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    packs.import_pack_file(path, pack, factory.make_part(config, "embedder"))


def learn_pack(
    arm_run: ArmRun, listen: Listener = lambda run, record: None, held_out: Sequence[str] = (), session: RunSession | None = None
) -> Path:
    """Complete a run and export its memory as a pack next to its folder, without anything that reveals the held-out tasks (patterns).

    An existing pack is kept, with or without its run; if its run exists, the settings must be the same.
    """
    file = arm_run.folder.with_name(f"{arm_run.folder.name}.jsonl")
    if file.exists():
        if (arm_run.folder / "run.toml").exists():
            refuse_changed_settings(Run.open(arm_run.folder), arm_run.config, CHANGEABLE_SETTINGS)
    else:
        complete_run(arm_run, listen, session=session)
        export_learned_pack(arm_run, file, held_out)
    return file


def export_learned_pack(arm_run: ArmRun, file: Path, held_out: Sequence[str]) -> Path:
    """Write the memory of a run as a pack, without the items that reveal held-out tasks under any name."""
    bank = arm_run.folder / "memory.db"
    filters = PackFilters(backend=arm_run.config.plugin_name("backend"), held_out=",".join(held_out))
    exclusions = find_contamination(bank, filters.held_out).export_filter() if held_out else packs.NO_EXCLUSIONS
    packs.export_pack(bank, file, filters, exclusions)
    return file
