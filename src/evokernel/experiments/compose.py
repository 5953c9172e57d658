"""Makes an Engine from settings: the one place that knows which parts a run is made of."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evokernel import __version__
from evokernel.core.config import RunConfig, resolve
from evokernel.core.errors import UserError
from evokernel.core.plugins import accepts, make
from evokernel.core.run import Run, new_id
from evokernel.engine.loop import Engine
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.memory.seeds import seeds
from evokernel.tasks.loader import load


def start(config: RunConfig, folder: Path | None = None) -> Engine:
    """A new run in `folder` (default: `runs/<id>`), ready to go; everything that can be refused is refused before it is made."""
    backend = part(config, "backend")
    if missing := backend.missing():
        raise UserError(f"backend '{config.name('backend')}' cannot work here: {missing}")
    tasks = load(config.tasks)
    config = config.model_copy(update={"id": config.id or new_id([config.name("backend"), config.name("generator")])})
    folder = folder or Path("runs") / config.id
    facts = {"versions": {"evokernel": __version__, "python": platform.python_version(), **backend.versions()}, "hardware": hardware()}
    return engine(lambda: Run.create(folder, config, tasks, facts), config, folder)


def resume(folder: Path, sets: Sequence[str] = (), **flags: Any) -> Engine:
    """The run in `folder`, to go on where it stopped; settings may change for what is still to come."""
    run = Run.open(folder)
    config = resolve(None, sets, base=run.config.model_dump(mode="json"), **flags)
    for fixed in ("id", "tasks", "fresh", "memory", "backend"):
        if getattr(config, fixed) != getattr(run.config, fixed):
            raise UserError(f"'{fixed}' cannot change in a run that has begun; start a new one with evokernel run")
    if missing := part(config, "backend").missing():
        raise UserError(f"backend '{config.name('backend')}' cannot work here: {missing}")

    def reopen() -> Run:
        if config != run.config:
            run.save_config(config)
        return run

    return engine(reopen, config, folder)


def engine(opened: Any, config: RunConfig, folder: Path) -> Engine:
    """Makes the parts first, so that a wrong setting leaves no folder behind."""
    made = {name: part(config, name) for name in ("generator", "policy", "embedder", "executor")}
    run: Run = opened()
    run.lock()
    path = folder / "memory.db" if config.fresh else Path(config.memory)
    memory = Bank.open(path, made["embedder"], backend=config.name("backend"), run=config.id)
    if run.journal.path.exists() and not memory.resumed:
        raise UserError(f"{path} is not the bank this run learned into: put that one back, the run began from what it held")
    memory.add(seeds(config.name("backend")))
    built = Engine(
        run=run,
        generator=made["generator"],
        policy=made["policy"],
        memory=memory,
        executor=made["executor"],
        distill=distill,
    )
    if config.clock == "synthetic":
        built.clock = lambda: 0.0
    if hasattr(built.generator, "stop"):
        built.generator.stop = built.stop
    if hasattr(built.generator, "ledger"):
        built.generator.ledger = run.folder / "calls.jsonl"
    return built


def part(config: RunConfig, name: str) -> Any:
    """A plug-in made from its table; what the whole run knows is filled in where the plug-in asks for it."""
    shared = {"backend": config.name("backend"), "seed": config.seed, "budget": config.budget, "workers": config.workers}
    asked = {key: value for key, value in shared.items() if accepts(name, config.name(name), key)}
    return make(name, config.name(name), **{**asked, **config.settings(name)})


def hardware() -> dict[str, str]:
    """What the run was made on, in words."""
    facts = {"machine": platform.machine(), "system": f"{platform.system()} {platform.release()}"}
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        facts |= {"cpu": models[0]} if models else {}
        facts["cores"] = str(sum(line.startswith("processor") for line in cpuinfo.read_text().splitlines()))
    return facts
