"""Verifies many kernels outside a run with workers that stay warm: what the Python API, the service, MCP, RL and CI gates build on."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from evokernel.app.factory import check_llm_review, load_sized_tasks, make_part, make_working_backend
from evokernel.app.kernel_files import detect_backend, kernel_suffixes, load_backend_classes, read_candidate, require_kernel_source
from evokernel.core.config import RunConfig, resolve_config
from evokernel.core.errors import UserError
from evokernel.core.plugins import find_plugin
from evokernel.core.protocols import Executor, RemoteExecutor, ReportingExecutor
from evokernel.core.records import Candidate, GateResult, Job, Outcome, Task
from evokernel.engine.jobs import make_job
from evokernel.executors.worker_pool import WorkerPool

KernelSource = str | os.PathLike[str] | Mapping[str, str] | Candidate
"""A kernel: its source text, its file or folder, its files by name, or a candidate."""
TaskSource = str | os.PathLike[str] | Task
"""A task: `suite/name`, the path of a .py file, or a task that was loaded."""
ProgressListener = Callable[[str, GateResult | None], None]
"""Called from any thread with the name of a gate: when the gate starts, with None, and when it ends, with its result."""


class PlannedVerification(NamedTuple):
    """A verification whose settings, task and kernel were checked and that can be submitted."""

    config: RunConfig
    task: Task
    candidate: Candidate
    baselines: tuple[str, ...]


class VerificationPool:
    """Verifies kernels of any task and backend. `settings` are those of a run, such as {"timeout_s": 20, "backend": {"threads": 2}}.

    Planning raises UserError for what the caller must correct. A submitted verification always ends with an outcome, or with InfraError
    if no worker could complete it. Thread-safe. Close it, or use it in a `with` statement.
    """

    def __init__(self, workers: int = 1, settings: Mapping[str, Any] | None = None) -> None:
        self.settings = dict(settings or {})
        self.config = resolve_config(None, base=self.settings, workers=workers)
        self.executor: Executor = make_part(self.config, "executor")
        self.listeners: dict[int, ProgressListener] = {}
        """By the identity of the job, which stays in memory until its verification ends: equal jobs may run side by side."""
        self.tasks: dict[tuple[str, str, str], Task] = {}
        if isinstance(self.executor, ReportingExecutor):
            self.executor.on_gate = self.report_gate

    def __enter__(self) -> VerificationPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def warm_up(self) -> None:
        """Start the worker that gets the next verification, while the caller still loads the task."""
        if isinstance(self.executor, WorkerPool):
            self.executor.start_worker()

    def close(self) -> None:
        """Stop the workers."""
        self.executor.close()

    def plan(
        self,
        kernel: KernelSource,
        task: TaskSource,
        *,
        backend: str | None = None,
        size: str | None = None,
        baselines: Sequence[str] = (),
        overrides: Sequence[str] = (),
        settings: Mapping[str, Any] | None = None,
    ) -> PlannedVerification:
        """Check everything that the caller could have got wrong, without verifying. Raises UserError with one line that names the fix.

        `baselines` are timed besides PyTorch's eager mode; `settings` are further settings of this verification, as for the
        pool; `overrides` are the same as text, such as "backend.threads=2".
        """
        candidate = as_candidate(kernel, backend)
        base = {**self.settings, **(settings or {}), "backend": self.backend_settings(candidate.backend, settings)}
        config = resolve_config(None, overrides, base=base, size=size, tuning_trials=0)
        check_llm_review(config)
        is_remote = isinstance(self.executor, RemoteExecutor)
        require_kernel_source(candidate, make_part(config, "backend") if is_remote else make_working_backend(config))
        return PlannedVerification(config, self.load_task(task, config), candidate, ("eager", *baselines))

    def backend_settings(self, name: str, settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The settings of a kernel's backend: those given, or else the pool's, if they are for that backend or for any."""
        chosen = (settings or {}).get("backend") or self.settings.get("backend") or {}
        own = {"name": chosen} if isinstance(chosen, str) else dict(chosen)
        return own | {"name": name} if own.get("name", name) == name else {"name": name}

    def load_task(self, task: TaskSource, config: RunConfig) -> Task:
        """Load a task once for each backend and size; a file is read again if it changed."""
        if isinstance(task, Task):
            return task
        if not isinstance(task, str | os.PathLike):
            raise UserError(f"a task is 'suite/name', the path of a .py file or a task that was loaded, not {type(task).__name__}.")
        path = Path(task)
        spec = f"{task}@{path.stat().st_mtime_ns}" if path.suffix == ".py" and path.is_file() else str(task)
        key = (spec, config.plugin_name("backend"), config.size)
        if key not in self.tasks:
            tasks = load_sized_tasks(config, str(task))
            if len(tasks) != 1:
                raise UserError(f"'{task}' names {len(tasks)} tasks. Name one, such as {tasks[0].id}.")
            self.tasks[key] = tasks[0]
        return self.tasks[key]

    def submit(
        self,
        planned: PlannedVerification,
        *,
        on_gate: ProgressListener | None = None,
        ignore_cache: bool = False,
        incumbent: Candidate | None = None,
    ) -> Future[Outcome]:
        """Queue a verification; the future raises InfraError if no worker could complete it.

        An `incumbent` is another kernel of the task; where latencies are measured, it is measured alternately with this one.
        """
        config, task, candidate, baselines = planned
        job = make_job(config, task, candidate, seed=config.seed, baselines=baselines, incumbent=incumbent)
        job = job.model_copy(update={"ignore_cache": ignore_cache})
        if on_gate is None or not isinstance(self.executor, ReportingExecutor):
            return self.executor.submit(job)
        job = job.model_copy(update={"reports_gates": True})
        self.listeners[id(job)] = on_gate
        future = self.executor.submit(job)
        future.add_done_callback(lambda _: self.listeners.pop(id(job), None))
        return future

    def verify(self, kernel: KernelSource, task: TaskSource, **options: Any) -> Outcome:
        """Plan a verification with the options of `plan`, and wait for its outcome."""
        return self.submit(self.plan(kernel, task, **options)).result()

    def report_gate(self, job: Job, gate: str, result: GateResult | None) -> None:
        """Pass the progress of a job on to the listener that it was submitted with."""
        if listener := self.listeners.get(id(job)):
            listener(gate, result)


def as_candidate(kernel: KernelSource, backend: str | None) -> Candidate:
    """Read a kernel. A string is source text unless `is_path` says that it is a path; then the backend must be named."""
    if backend is not None:
        require_backend_name(backend)
    if isinstance(kernel, Candidate):
        return kernel
    if isinstance(kernel, Mapping):
        return Candidate(backend=require_backend_name(backend), files=dict(kernel))
    if not isinstance(kernel, str | os.PathLike):
        kind = type(kernel).__name__
        raise UserError(f"a kernel is source text, a path, a dictionary of files by name, or a kernel of a run, not {kind}.")
    path = Path(kernel)
    if isinstance(kernel, os.PathLike) or is_path(kernel):
        return read_candidate(path, backend or detect_backend(path))
    name = require_backend_name(backend)
    return Candidate(backend=name, files={load_backend_classes()[name].file_name: kernel})


def is_path(text: str) -> bool:
    """Whether a text is a path and not the source of a kernel: one line that names a file, or that ends as the name of a kernel's file."""
    if "\n" in text or not 0 < len(text) < os.pathconf("/", "PC_PATH_MAX"):
        return False
    return Path(text).exists() or Path(text).suffix in kernel_suffixes()


def require_backend_name(backend: str | None) -> str:
    """Return the name of an existing backend. Raises UserError otherwise."""
    if backend is None:
        raise UserError('source text has no file name: name its language, such as backend="cpp"')
    find_plugin("backend", backend)
    return backend
