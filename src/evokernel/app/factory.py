"""Builds an Engine from settings. This is the only module that combines the parts of a run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from evokernel.app.guarded_executor import GuardedExecutor
from evokernel.app.start_kernels import read_start_kernels, store_start_kernels
from evokernel.core.backend import Backend, check_tensor_types
from evokernel.core.config import PARTS, RunConfig, resolve_config
from evokernel.core.environment import describe_hardware, package_versions, toolchain_versions
from evokernel.core.errors import UserError
from evokernel.core.memory_limits import check_memory, memory_shortage
from evokernel.core.plugins import accepts_setting, check_settings, find_plugin, make_plugin
from evokernel.core.protocols import Embedder, Executor, Generator, RemoteExecutor, ToolUsingGenerator
from evokernel.core.records import Candidate, Task, TimedSize
from evokernel.core.run import Environment, Run, new_run_id
from evokernel.engine.attempt_maker import Distiller
from evokernel.engine.loop import Engine
from evokernel.memory import provenance
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.memory.read_only import ReadOnlyBank
from evokernel.memory.seed_cards import load_seed_cards
from evokernel.sandbox import layers
from evokernel.suites.loader import TaskFile, describe_task, find_task_files

log = logging.getLogger(__name__)
EngineType = TypeVar("EngineType", bound=Engine)
FALLBACK_BACKEND = "cpp"
"""Backend of a run if the user chose none and the default backend cannot work on this machine."""


def choose_working_backend(config: RunConfig) -> tuple[RunConfig, str]:
    """Replace the default backend if it cannot work on this machine; return the settings and the reason.

    A backend that the user chose is never replaced.
    """
    if "backend" in config.model_fields_set or config.plugin_name("executor") != "local":
        return config, ""
    problem = make_part(config, "backend").unavailable_reason()
    if problem is None or make_plugin("backend", FALLBACK_BACKEND).unavailable_reason():
        return config, ""
    reason = f"backend '{config.plugin_name('backend')}' cannot work on this machine: {problem}"
    return config.model_copy(update={"backend": {"name": FALLBACK_BACKEND}}), reason


def apply_generator_defaults(config: RunConfig) -> RunConfig:
    """Take the generator's `run_defaults` for settings that the user did not choose; a budget that the user chose is spent completely."""
    if {"budget", "stop_when"} & config.model_fields_set:
        return config
    defaults = getattr(find_plugin("generator", config.plugin_name("generator")), "run_defaults", {})
    return config.model_copy(update={name: value for name, value in defaults.items() if name not in config.model_fields_set})


def choose_timed_size(config: RunConfig, file: TaskFile) -> TimedSize:
    """Return the size at which kernels are timed: the user's choice, or else `full` if both the backend and the suite are for it."""
    if config.size != "auto":
        return config.size
    return "full" if {make_part(config, "backend").timed_size, file.timed_size} == {"full"} else "laptop"


def load_sized_tasks(config: RunConfig, spec: str) -> list[Task]:
    """Load tasks at the size at which their kernels are timed. Raises UserError for one that needs more memory than this machine has.

    Unless the user chose the size, such a task is taken at size `laptop` instead. The memory of other machines is not known here.
    """
    files = find_task_files(spec)
    tasks = [describe_task(file, choose_timed_size(config, file)) for file in files]
    check_tensor_types(find_plugin("backend", config.plugin_name("backend")), tasks)
    if config.plugin_name("executor") != "local":
        return tasks
    backend: Backend = make_part(config, "backend")
    in_parts = backend.capabilities.can_check_full_sizes
    for number, task in enumerate(tasks):
        shortage = memory_shortage(task, in_parts=in_parts) or backend.device_memory_shortage(task)
        if shortage and config.size == "auto" and task.timed_size == "full":
            log.warning("%s is timed at size laptop: at size full it needs %s", task.id, shortage)
            tasks[number] = describe_task(files[number])
    check_memory(tasks, in_parts=in_parts, find_shortage=backend.device_memory_shortage)
    return tasks


def create_engine(config: RunConfig, folder: Path | None = None, executor: Executor | None = None) -> Engine:
    """Create a new run in `folder` (default: `runs/<id>`). All checks happen before the folder is created.

    An `executor` of the caller is used instead of a new one.
    """
    parts: dict[str, Any] = {"executor": executor or make_part(config, "executor")}
    versions = verifier_toolchain(config, parts["executor"])
    check_llm_review(config)
    tasks = load_sized_tasks(config, config.tasks)
    config = config.model_copy(update={"id": config.id or new_run_id([config.plugin_name("backend"), config.plugin_name("generator")])})
    folder = folder or Path("runs") / config.id
    Run.check_new_folder(folder)  # before the bank, which is created if it does not exist
    environment = {"versions": versions, "hardware": describe_hardware()}
    parts |= make_parts(config)
    check_drafts(config, parts["generator"])
    start_kernels = read_start_kernels(config, tasks)
    if config.fresh:
        run = create_run(folder, config, tasks, environment, start_kernels)
        return assemble_engine(run, config, parts, open_bank(config, folder, parts["embedder"], environment), Engine)
    memory = open_bank(config, folder, parts["embedder"], environment)  # first, so that an unusable bank leaves no empty run folder
    if memory.has_own_items:
        raise UserError(f"{memory.path} already contains a run with the id '{config.id}'. Choose another id, or resume that run.")
    return assemble_engine(create_run(folder, config, tasks, environment, start_kernels), config, parts, memory, Engine)


def create_run(
    folder: Path, config: RunConfig, tasks: Sequence[Task], environment: Environment, start_kernels: Mapping[str, Candidate]
) -> Run:
    """Create the folder of a run with the first kernels that the user brings."""
    run = Run.create(folder, config, tasks, environment)
    store_start_kernels(run, start_kernels)
    return run


def resume_engine(folder: Path, overrides: Sequence[str] = (), executor: Executor | None = None, **flags: Any) -> Engine:
    """Continue the run in `folder`; most settings may change for the remaining attempts. See `create_engine` for `executor`."""
    run = Run.open(folder)
    config = resolve_config(None, overrides, base=run.config.model_dump(mode="json"), **flags)
    for setting in ("id", "tasks", "size", "start", "fresh", "memory_read_only", "memory", "backend", "schedule"):
        if getattr(config, setting) != getattr(run.config, setting):
            raise UserError(f"setting '{setting}' cannot change when a run is resumed. Start a new run.")
    parts: dict[str, Any] = {"executor": executor or make_part(config, "executor")}
    environment = {"versions": verifier_toolchain(config, parts["executor"]), "hardware": describe_hardware()}
    check_llm_review(config)
    parts |= make_parts(config)
    check_drafts(config, parts["generator"])
    memory = open_bank(config, folder, parts["embedder"], run.environment)
    if run.journal.path.exists() and not memory.is_resumed:
        raise UserError(f"{memory.path}: this run started from a different memory bank. Restore that bank, then resume.")
    engine = assemble_engine(run, config, parts, memory, Engine)
    run.record_environment(environment)
    return engine


def assemble_engine(
    run: Run,
    config: RunConfig,
    parts: Mapping[str, Any],
    memory: Bank,
    engine_class: Callable[..., EngineType],
    distill: Distiller = distill,
) -> EngineType:
    """Combine the parts into an engine and make this process the only writer of the run."""
    run.lock()
    run.revoke(memory.revoked_attempts)
    if config != run.config:
        run.save_config(config)
    memory.add(load_seed_cards(config.plugin_name("backend")))
    engine = engine_class(
        run=run,
        generator=parts["generator"],
        policy=parts["policy"],
        memory=ReadOnlyBank(memory) if config.memory_read_only else memory,
        executor=GuardedExecutor(parts["executor"], memory.revoked_candidates, config.llm_review, run.folder / "review-calls.jsonl"),
        distill=distill,
    )
    if config.clock == "synthetic":
        engine.clock = lambda: 0.0
    connect_generator(engine.generator, engine)
    return engine


def connect_generator(generator: Any, engine: Engine) -> None:
    """Give a generator what it has attributes for: the event that stops the run, the tools of attempts, the versions of its
    prompts, the file with its costs."""
    if hasattr(generator, "stop"):
        generator.stop = engine.stop
    if isinstance(generator, ToolUsingGenerator):
        generator.tools = engine.make_tools
    if prompts := getattr(generator, "prompts", None):
        prompts.find_versions = lambda: engine.run.environments()[-1]["versions"]  # where the executor verifies
    if hasattr(generator, "ledger"):
        generator.ledger = engine.run.folder / "calls.jsonl"


def make_working_backend(config: RunConfig) -> Backend:
    """Return the backend. Raises UserError if it cannot work on this machine."""
    backend: Backend = make_part(config, "backend")
    if problem := backend.unavailable_reason():
        raise UserError(f"backend '{config.plugin_name('backend')}' cannot work on this machine: {problem}")
    return backend


def require_backend(config: RunConfig) -> Backend:
    """Return the backend of a run. Raises UserError if it cannot work or cannot check values on this machine."""
    if config.require_sandbox:
        layers.require_all_layers()
    backend = make_working_backend(config)
    if not backend.capabilities.can_check_values:
        name, limitations = config.plugin_name("backend"), backend.capabilities.limitations
        raise UserError(f"backend '{name}' cannot check results on this machine: {limitations}. 'evokernel verify' can compile a kernel.")
    return backend


def describe_limitations(config: RunConfig) -> str:
    """Return what cannot be decided where this run verifies, and what to do about it; empty if there is nothing, or if it is elsewhere."""
    if config.plugin_name("executor") != "local":
        return ""
    backend: Backend = make_part(config, "backend")
    return backend.capabilities.limitations


def verifier_toolchain(config: RunConfig, executor: Executor) -> dict[str, str]:
    """Return the versions of the toolchain where the executor verifies. Raises UserError if it is incomplete."""
    if isinstance(executor, RemoteExecutor):
        return {**package_versions(), **executor.toolchain(config.plugin_name("backend"), config.plugin_settings("backend"))}
    return toolchain_versions(require_backend(config))


def check_llm_review(config: RunConfig) -> None:
    """Raise UserError if the settings of the LLM review are invalid."""
    if config.llm_review:
        from evokernel.verifier.llm_review import check_review_settings

        check_review_settings(config.llm_review)


def check_drafts(config: RunConfig, generator: Generator) -> None:
    """Raise UserError if the run cannot write several drafts per attempt, or cannot rank them as its settings say."""
    if config.drafts_per_attempt == 1:
        return
    if isinstance(generator, ToolUsingGenerator):
        name = config.plugin_name("generator")
        raise UserError(f"drafts_per_attempt is not for generator '{name}', which verifies its own kernels. Set drafts_per_attempt to 1.")
    if config.draft_filter == "estimate" and make_part(config, "backend").capabilities.timing != "estimate":
        name = config.plugin_name("backend")
        raise UserError(f'draft_filter = "estimate": backend \'{name}\' measures latencies. Set draft_filter to "surrogate".')


def open_bank(config: RunConfig, folder: Path | None, embedder: Embedder, environment: Mapping[str, Mapping[str, str]]) -> Bank:
    """Open the memory bank for this run; `folder` is None for a kernel that was verified outside a run."""
    metadata = provenance.make_metadata(config, environment)
    location, backend = config.bank_location(folder or Path()), config.plugin_name("backend")
    return Bank.open(location, embedder, backend=backend, run=config.id, folder=folder, metadata=metadata)


def make_parts(config: RunConfig) -> dict[str, Any]:
    """Construct generator, policy and embedder. The executor exists already, and the backend belongs to the verifier."""
    return {name: make_part(config, name) for name in ("generator", "policy", "embedder")}


def make_part(config: RunConfig, name: str) -> Any:
    """Construct the plug-in of one part, such as `policy`, from its settings."""
    return make_plugin(name, config.plugin_name(name), **plugin_kwargs(config, name))


def plugin_kwargs(config: RunConfig, name: str) -> dict[str, Any]:
    """Return the constructor arguments of a plug-in: its settings, and settings of the run that its constructor accepts."""
    run_settings = {"backend": config.plugin_name("backend")} | config.model_dump(include={"seed", "budget", "workers", "tuning_trials"})
    if name == "executor":
        run_settings["workers"] = choose_worker_count(config)
    accepted = {key: value for key, value in run_settings.items() if accepts_setting(name, config.plugin_name(name), key)}
    return {**accepted, **config.plugin_settings(name)}


def choose_worker_count(config: RunConfig) -> int:
    """Return the number of parallel verifications: the user's choice, or one per core, but no more than the backend can use."""
    limit: int | None = find_plugin("backend", config.plugin_name("backend")).max_useful_workers
    return config.workers or (min(config.worker_count, limit) if limit else 0)


def check_plugin_settings(config: RunConfig) -> None:
    """Raise UserError for unknown plug-ins, unknown settings or invalid policy settings. Starts no process and sends no request."""
    for name in PARTS:
        check_settings(name, config.plugin_name(name), plugin_kwargs(config, name))
    make_part(config, "policy")
    if config.llm_review:
        from evokernel.verifier.llm_review import make_chat_settings

        make_chat_settings(config.llm_review)
