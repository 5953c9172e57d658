"""Evaluates all solutions of a folder in parallel. Results are kept in files, so that a second run evaluates only the rest."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

import evokernel
from evokernel.app.factory import make_part
from evokernel.app.kernelbench.evaluation import BACKENDS, Progress, Settings, evaluate_solution, is_refused_for_torch
from evokernel.app.kernelbench.results import CriterionResult, SolutionResult, StrictResult
from evokernel.app.kernelbench.solution_client import end_active
from evokernel.app.kernelbench.solution_files import MappedSolution
from evokernel.core import paths
from evokernel.core.environment import package_versions
from evokernel.core.errors import InfraError, UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import Executor
from evokernel.core.records import Task
from evokernel.suites.loader import describe_task

log = logging.getLogger(__name__)
RESULTS_FOLDER = "results"
KILLED = "crash: signal SIGKILL"
"""A process that was killed from outside, perhaps for memory: its result is not kept."""
VERSIONED_PACKAGES = ("torch", "triton", "numpy")


class Evaluated(NamedTuple):
    """A result, and whether it was there from an earlier run."""

    result: SolutionResult
    is_reused: bool


class ResultStore:
    """Results by key, one file each; a file that cannot be read counts as missing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / RESULTS_FOLDER

    def load(self, key: str) -> SolutionResult | None:
        """Return a result of an earlier run."""
        try:
            return SolutionResult.model_validate_json((self.folder / f"{key}.json").read_bytes())
        except (OSError, ValidationError):
            return None

    def store(self, result: SolutionResult) -> None:
        """Keep a result. Raises UserError if the disk does not allow it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot create {self.folder}: {error.strerror or error}. Choose another --out.") from error
        paths.write_text(self.folder / f"{result.key}.json", result.model_dump_json(indent=1))


class Runner:
    """Evaluates solutions with `workers` at a time; `progress` says what each is doing."""

    def __init__(self, settings: Settings, store: ResultStore, workers: int) -> None:
        self.settings, self.store, self.workers = settings, store, workers
        self.progress: dict[str, Progress] = {}
        self.guard = threading.Lock()
        self.is_closed = False
        """Whether the run was interrupted: what then fails says nothing about a solution."""
        self.versions = collect_versions(settings)

    def run(self, mapped: Sequence[MappedSolution]) -> Iterator[Evaluated]:
        """Yield results as they are finished: those of earlier runs first."""
        missing: list[tuple[MappedSolution, Task | UserError, str]] = []
        for one in mapped:
            with self.show_progress(one.solution.name, "loading the problem of"):
                task = self.load_task(one)
            key = self.make_key(one, task)
            if result := self.load_result(one, task, key):
                yield Evaluated(result.model_copy(update={"solution": one.solution.name}), True)
            else:
                missing.append((one, task, key))
        if not missing:
            return
        executor: Executor = make_part(self.settings.config, "executor")
        pool = ThreadPoolExecutor(self.workers)
        try:
            futures: list[Future[SolutionResult]] = [pool.submit(self.evaluate, *one, executor) for one in missing]
            for future in as_completed(futures):
                yield Evaluated(future.result(), False)
        finally:
            self.is_closed = True
            pool.shutdown(wait=False, cancel_futures=True)
            end_active()
            executor.close()

    def load_result(self, one: MappedSolution, task: Task | UserError, key: str) -> SolutionResult | None:
        """Return a result of an earlier run; one without PyTorch operators holds whether they are allowed or not."""
        if (result := self.store.load(key)) or not self.settings.allow_torch:
            return result
        plain_settings = replace(self.settings, allow_torch=False)
        result = self.store.load(self.make_key(one, task, plain_settings))
        return None if result is None or is_refused_for_torch(result.strict) else result

    def load_task(self, one: MappedSolution) -> Task | UserError:
        """Load a problem at its published size; a problem that cannot be loaded is reported with its solutions."""
        try:
            return describe_task(one.problem, "full")
        except UserError as error:
            return error

    def evaluate(self, one: MappedSolution, task: Task | UserError, key: str, executor: Executor) -> SolutionResult:
        """Evaluate one solution and keep its result; a failure of the machine is reported and not kept."""
        if isinstance(task, UserError):
            return not_run(one, key, str(task))
        with self.show_progress(one.solution.name, "starting") as progress:
            try:
                result = evaluate_solution(one.solution, task, key, self.settings, executor, progress)
            except InfraError as error:
                return not_run(one, key, f"this machine failed: {error}")
        if not self.is_closed and not result.criterion.detail.startswith(KILLED):
            self.store.store(result)
        return result

    @contextmanager
    def show_progress(self, name: str, step: str) -> Iterator[Progress]:
        """Let `describe_activity` say what happens to a solution in this block."""
        progress = Progress(name, step)
        with self.guard:
            self.progress[name] = progress
        try:
            yield progress
        finally:
            with self.guard:
                del self.progress[name]

    def make_key(self, one: MappedSolution, task: Task | UserError, settings: Settings | None = None) -> str:
        """Hash of everything that decides a result: solution, problem, settings, versions and the code that evaluates."""
        problem = str(task) if isinstance(task, UserError) else task.model_dump_json()
        parts = [one.solution.content_hash, problem, (settings or self.settings).describe(), self.versions]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]

    def describe_activity(self) -> str:
        """What is being evaluated: `strict protocol level_1_problem_23 12 s, …`."""
        with self.guard:
            active = sorted(self.progress.values(), key=lambda one: one.started_at)
        now = time.monotonic()
        return ", ".join(f"{one.step} {one.name} {now - one.started_at:.0f} s" for one in active[:3])


def not_run(one: MappedSolution, key: str, reason: str) -> SolutionResult:
    """The result of a solution that could not be evaluated."""
    return SolutionResult(
        solution=one.solution.name,
        problem=one.problem.id,
        kind=one.solution.kind,
        key=key,
        strict=StrictResult(verdict="not run", detail=reason),
        criterion=CriterionResult(verdict="not run", detail=reason),
        seconds=0.0,
    )


def collect_versions(settings: Settings) -> Mapping[str, str]:
    """Versions of everything that evaluates: this package and its code, PyTorch, Triton, compilers, the device and its driver."""
    versions = {"evokernel": evokernel.__version__, "code": hash_own_code()}
    versions |= {name: version for name, version in package_versions().items() if name in VERSIONED_PACKAGES}
    for name in BACKENDS.values():
        backend = make_plugin("backend", name, **settings.config.plugin_settings("backend"))
        versions |= {f"{name} {what}": version for what, version in backend.versions().items()}
    return versions


def hash_own_code() -> str:
    """Hash of the modules of this folder."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
