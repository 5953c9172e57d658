"""Makes an Engine from settings: the one place that knows which parts a run is made of."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evokernel import __version__
from evokernel.app.guarded_executor import GuardedExecutor
from evokernel.app.resources import too_large
from evokernel.core.bank_uri import parse_location
from evokernel.core.config import PARTS, RunConfig, resolve_config
from evokernel.core.errors import UserError
from evokernel.core.plugins import accepts_setting, check_settings, make_plugin
from evokernel.core.protocols import Backend, Embedder, Executor, PartialBackend, RemoteExecutor
from evokernel.core.records import Task
from evokernel.core.run import Run, new_run_id
from evokernel.engine.loop import Engine
from evokernel.memory import provenance
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.memory.read_only import Frozen
from evokernel.memory.seed_cards import seeds
from evokernel.sandbox import layers
from evokernel.tasks.loader import load

FALLBACK_BACKEND = "cpp"
"""The backend of a run whose user chose none, where the default one cannot work."""


def with_working_backend(config: RunConfig) -> tuple[RunConfig, str]:
    """Settings that name a backend that works here, and why that is not the default one. What was chosen, by whatever way, stays."""
    if "backend" in config.model_fields_set or config.plugin_name("executor") != "local":
        return config, ""
    missing = make_part(config, "backend").missing()
    if missing is None or make_plugin("backend", FALLBACK_BACKEND).missing():
        return config, ""
    why = f"backend '{config.plugin_name('backend')}' cannot work here: {missing}"
    return config.model_copy(update={"backend": {"name": FALLBACK_BACKEND}}), why


def create_engine(config: RunConfig, folder: Path | None = None) -> Engine:
    """A new run in `folder` (default: `runs/<id>`), ready to go; everything that can be refused is refused before it is made."""
    made = {"executor": make_part(config, "executor")}
    versions = verifier_toolchain(config, made["executor"])
    check_llm_review(config)
    tasks = load(config.tasks)
    if not isinstance(made["executor"], RemoteExecutor):
        refuse_too_large(tasks)
    config = config.model_copy(update={"id": config.id or new_run_id([config.plugin_name("backend"), config.plugin_name("generator")])})
    folder = folder or Path("runs") / config.id
    facts = {"versions": versions, "hardware": describe_hardware()}
    made |= make_parts(config)
    if config.fresh:
        run = Run.create(folder, config, tasks, facts)
        return assemble_engine(run, config, made, open_bank(config, folder, made["embedder"], facts))
    memory = open_bank(config, folder, made["embedder"], facts)  # before the folder: a bank that cannot be used leaves no empty run behind
    if memory.begun:
        raise UserError(f"{memory.path} already holds a run called '{config.id}': choose another id, or resume that run")
    return assemble_engine(Run.create(folder, config, tasks, facts), config, made, memory)


def resume_engine(folder: Path, sets: Sequence[str] = (), **flags: Any) -> Engine:
    """The run in `folder`, to go on where it stopped; settings may change for what is still to come."""
    run = Run.open(folder)
    config = resolve_config(None, sets, base=run.config.model_dump(mode="json"), **flags)
    for fixed in ("id", "tasks", "fresh", "frozen", "memory", "backend", "mode"):
        if getattr(config, fixed) != getattr(run.config, fixed):
            raise UserError(f"'{fixed}' cannot change in a run that has begun; start a new one with evokernel run")
    made = {"executor": make_part(config, "executor")}
    facts = {"versions": verifier_toolchain(config, made["executor"]), "hardware": describe_hardware()}
    check_llm_review(config)
    made |= make_parts(config)
    memory = open_bank(config, folder, made["embedder"], run.facts)
    if run.journal.path.exists() and not memory.resumed:
        raise UserError(f"{memory.path} is not the bank this run learned into: put that one back, the run began from what it held")
    built = assemble_engine(run, config, made, memory)
    run.record_environment(facts)
    return built


def assemble_engine(run: Run, config: RunConfig, made: Mapping[str, Any], memory: Bank) -> Engine:
    """Puts the parts together and makes this process the run's writer."""
    run.lock()
    run.revoke(memory.revoked)
    if config != run.config:
        run.save_config(config)
    memory.add(seeds(config.plugin_name("backend")))
    built = Engine(
        run=run,
        generator=made["generator"],
        policy=made["policy"],
        memory=Frozen(memory) if config.memory_read_only else memory,
        executor=GuardedExecutor(made["executor"], memory.refused, config.llm_review, run.folder / "audit-calls.jsonl"),
        distill=distill,
    )
    if config.clock == "synthetic":
        built.clock = lambda: 0.0
    if hasattr(built.generator, "stop"):
        built.generator.stop = built.stop
    if hasattr(built.generator, "ledger"):
        built.generator.ledger = run.folder / "calls.jsonl"
    return built


def working_backend(config: RunConfig) -> Backend:
    """The backend, or what this machine lacks."""
    if config.require_sandbox:
        layers.require()
    backend: Backend = make_part(config, "backend")
    if missing := backend.unavailable_reason():
        raise UserError(f"backend '{config.plugin_name('backend')}' cannot work here: {missing}")
    if isinstance(backend, PartialBackend) and not backend.can_check_values and (why := backend.limitations()):
        raise UserError(
            f"no kernel of backend '{config.plugin_name('backend')}' can be found right here: {why}; 'evokernel verify' compiles one"
        )
    return backend


def verifier_toolchain(config: RunConfig, executor: Executor) -> dict[str, str]:
    """The toolchain of the judges, or what they lack, wherever they are."""
    if isinstance(executor, RemoteExecutor):
        return {**package_versions(), **executor.toolchain(config.plugin_name("backend"), config.plugin_settings("backend"))}
    return toolchain_versions(working_backend(config))


def check_llm_review(config: RunConfig) -> None:
    """Refuses settings of the audit that cannot work."""
    if config.llm_review:
        from evokernel.verify.llm_review import refuse_bad_settings

        refuse_bad_settings(config.llm_review)


def open_bank(config: RunConfig, folder: Path, embedder: Embedder, facts: Mapping[str, Mapping[str, str]]) -> Bank:
    """The memory as this run sees it."""
    path = folder / "memory.db" if config.fresh else parse_location(config.memory)
    known = provenance.facts(config, facts)
    return Bank.open(path, embedder, backend=config.plugin_name("backend"), run=config.id, folder=folder, facts=known)


def refuse_too_large(tasks: Sequence[Task]) -> None:
    """A task whose tensors, with the copies a judge needs, exceed this machine's memory would only be killed."""
    for task in tasks:
        if why := too_large(task):
            raise UserError(f"task {task.id} needs {why}: leave it out of --tasks or make its sizes smaller")


def make_parts(config: RunConfig) -> dict[str, Any]:
    """Everything a run is made of but its executor, and its backend, which lives with the judge."""
    return {name: make_part(config, name) for name in ("generator", "policy", "embedder")}


def make_part(config: RunConfig, name: str) -> Any:
    """A plug-in made from its table."""
    return make_plugin(name, config.plugin_name(name), **plugin_kwargs(config, name))


def plugin_kwargs(config: RunConfig, name: str) -> dict[str, Any]:
    """What a plug-in is made from: its table, and what the whole run knows where the plug-in asks for it."""
    shared = {"backend": config.plugin_name("backend"), "seed": config.seed, "budget": config.budget, "workers": config.workers}
    asked = {key: value for key, value in shared.items() if accepts_setting(name, config.plugin_name(name), key)}
    return {**asked, **config.plugin_settings(name)}


def check_parts(config: RunConfig) -> None:
    """Refuses names and settings of plug-ins that nobody knows, and values that no policy takes; starts nothing, asks nobody."""
    for name in PARTS:
        check_settings(name, config.plugin_name(name), plugin_kwargs(config, name))
    make_part(config, "policy")
    if config.llm_review:
        from evokernel.verify.llm_review import chat_settings

        chat_settings(config.llm_review)


def toolchain_versions(backend: Backend) -> dict[str, str]:
    """What kernels are judged with here."""
    return {**package_versions(), **backend.versions()}


def package_versions() -> dict[str, str]:
    """Of the machine of the run, whoever judges."""
    return {"evokernel": __version__, "python": platform.python_version()}


def describe_hardware() -> dict[str, str]:
    """What the run was made on, in words."""
    facts = {"machine": platform.machine(), "system": f"{platform.system()} {platform.release()}"}
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        facts |= {"cpu": models[0]} if models else {}
        facts["cores"] = str(sum(line.startswith("processor") for line in cpuinfo.read_text().splitlines()))
    return facts
