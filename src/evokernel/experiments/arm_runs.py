"""Studies: the same tasks under several arms and seeds; each arm and seed is a run in a folder of its own, which can be gone on with."""

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
from evokernel.engine.final_eval import pending, reevaluate_best
from evokernel.engine.loop import Engine
from evokernel.experiments.pack_contamination import refuse_leaks
from evokernel.memory import packs
from evokernel.memory.bank import Bank
from evokernel.memory.pack_file import Filters, read
from evokernel.reports import metrics
from evokernel.reports.metrics import Tried
from evokernel.tasks.loader import load

OF_THE_MOMENT = ("budget", "workers", "concurrency", "memory")
"""Settings that may be others when a study is gone on with: none of them changes what an attempt is."""
Table = dict[str, Any]
Found = dict[str, dict[int, list[Tried]]]
"""By arm and seed."""
Listener = Callable[[Run, Attempt | FinalResult], None]


class Arm(Record):
    """One way to do the same work."""

    name: str
    settings: Table = {}
    """As in a settings file; they win over the study's."""
    tasks: tuple[str, ...] = ()
    """Of its own, where it is tried on others than the study's."""
    pack: Path | None = None
    """The memory pack it begins with; without one, it begins with seed knowledge only."""


class Study(Record):
    """Arms × seeds over the same tasks."""

    name: str
    tasks: tuple[str, ...]
    """What `--tasks` takes, one by one."""
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...] = (0,)
    settings: Table = {}
    """Of all arms."""
    again: Table | None = None
    """Settings by which bests are judged again at the end of a run, over the run's own; None: they are not."""


class Cell(NamedTuple):
    """One arm with one seed."""

    arm: Arm
    seed: int
    folder: Path


def cells(study: Study, folder: Path) -> list[Cell]:
    """Seed by seed, so that all arms have got equally far when a study is stopped."""
    return [Cell(arm, seed, folder / f"{arm.name}-{seed}") for seed in study.seeds for arm in study.arms]


def settings(study: Study, cell: Cell) -> RunConfig:
    """Of one run."""
    bank = {"memory": str((cell.folder / "memory.db").absolute())} if cell.arm.pack else {"fresh": True}
    table: Table = {}
    for more in (study.settings, cell.arm.settings, bank):
        merge_settings(table, more)
    tasks = cell.arm.tasks or study.tasks
    fixed = {"id": f"{study.name}-{cell.arm.name}-{cell.seed}", "seed": cell.seed, "tasks": ",".join(tasks)}
    return parse_config({**table, **fixed})


def conduct(study: Study, folder: Path, listen: Listener = lambda run, made: None) -> Found:
    """Every run to its end; what is there already is not made again."""
    for arm in study.arms:
        check_pack(arm, study)
    found: Found = {arm.name: {} for arm in study.arms}
    for cell in cells(study, folder):
        found[cell.arm.name][cell.seed] = complete(study, cell, listen)
    return found


def check_pack(arm: Arm, study: Study) -> None:
    """A pack must tell nothing about what it is tried on."""
    if arm.pack:
        items = [held.item for held in read(arm.pack).items]
        refuse_leaks(arm.pack, items, load(",".join(arm.tasks or study.tasks)))


def complete(study: Study, cell: Cell, listen: Listener = lambda run, made: None, may_change: Sequence[str] = ()) -> list[Tried]:
    """One run to its end."""
    config = settings(study, cell)
    if (cell.folder / "run.toml").exists():
        run = Run.open(cell.folder)
        refuse_other(run, config, (*OF_THE_MOMENT, *may_change))
        refuse_other_pack(cell)
        changed = {name: getattr(config, name) for name in ("budget", "workers", *may_change)}
        run.config = run.config.model_copy(update=changed)
        if is_over(run, study.again):
            return metrics.of_run(run, run.attempts())
        engine = factory.resume_engine(cell.folder, **changed)
    else:
        if cell.arm.pack:
            copy_pack(cell.arm.pack, config)
        engine = factory.create_engine(config, cell.folder)
    try:
        for made in results(engine, study.again):
            listen(engine.run, made)
    finally:
        engine.close()
    run = Run.open(cell.folder)
    return metrics.of_run(run, run.attempts())


def results(engine: Engine, again: Table | None) -> Iterator[Attempt | FinalResult]:
    """Attempts, then the second judgements, for which `again` may ask for more than the loop did: another clock, other baselines."""
    yield from engine.attempts()
    if again is not None:
        engine.run.config = judged_by(engine.run.config, again)  # in memory: the run's own stay what they were
        yield from reevaluate_best(engine)


def judged_by(config: RunConfig, again: Table) -> RunConfig:
    """Settings of the second judgements of a run."""
    return parse_config({**config.model_dump(mode="json"), **again})


def is_over(run: Run, again: Table | None) -> bool:
    """Whether nothing is left to do."""
    return run.is_complete(run.attempts()) and (again is None or not pending(run))


def refuse_other(run: Run, config: RunConfig, free: Sequence[str]) -> None:
    """A run that was begun otherwise is another experiment."""
    old, new = (given.model_dump(mode="json", exclude=set(free)) for given in (run.config, config))
    if other := [f"{name} = {old[name]!r}, not {new[name]!r}" for name in old if old[name] != new[name]]:
        raise UserError(f"{run.folder} was begun with {'; '.join(other)}: choose another folder for the study, or ask for the same")


def refuse_other_pack(cell: Cell) -> None:
    """So is one that began with another memory. Its bank knows the hash of what it took in, or none where an older evokernel made it."""
    bank = cell.folder / "memory.db"
    if cell.arm.pack and bank.exists():
        with Bank.read(bank) as held:
            began, asked = list(held.packs()), read(cell.arm.pack).sha256
        if began and asked not in began:
            other = f"memory pack {began[0][:12]}, not {asked[:12]} as {cell.arm.pack} is now"
            raise UserError(f"{cell.folder} was begun with {other}: choose another folder for the study, or put that pack back")


def copy_pack(pack: Path, config: RunConfig) -> None:
    """A bank that holds what the pack does, and nothing else."""
    path = Path(config.memory)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    packs.import_pack(path, pack, factory.make_part(config, "embedder"))


def learn_pack(study: Study, folder: Path, listen: Listener = lambda run, made: None, without: Sequence[str] = ()) -> Path:
    """The memory pack of a study with one arm and one seed: what its run learned, as a file, less some tasks.

    One that is there stays, whether its run was kept or not; where it was, the same must be asked for.
    """
    (cell,) = cells(study, folder)
    file = folder / f"{cell.folder.name}.jsonl"
    if file.exists():
        if (cell.folder / "run.toml").exists():
            refuse_other(Run.open(cell.folder), settings(study, cell), OF_THE_MOMENT)
    else:
        complete(study, cell, listen)
        filters = Filters(backend=settings(study, cell).plugin_name("backend"), without=tuple(without))
        packs.export(cell.folder / "memory.db", file, filters)
    return file
