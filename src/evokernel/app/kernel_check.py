"""Verifies kernels again and compares them with what a run recorded: the gate of a CI system."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.app.factory import require_backend
from evokernel.app.kernel_files import list_kernels, read_candidate, read_text
from evokernel.app.verification_pool import PlannedVerification, VerificationPool
from evokernel.core.config import RunConfig, resolve_config
from evokernel.core.environment import describe_hardware, toolchain_versions
from evokernel.core.errors import InfraError, UserError
from evokernel.core.plugins import did_you_mean, find_plugin
from evokernel.core.records import Candidate, Outcome, Task
from evokernel.core.run import Run
from evokernel.core.seeds import seed_from_text
from evokernel.reports import metrics
from evokernel.reports.kernel_check import (
    Comparison,
    KernelCheck,
    RecordedKernel,
    Status,
    compare_with_recorded,
    describe_comparison,
    is_same_device,
    list_toolchain_changes,
)

MAX_MEASUREMENTS = 2
"""A slowdown of code that changed fails a kernel if this many measurements show it, all of them."""
MAX_SESSIONS = 3
"""The same for equal code on another toolchain: two sessions differ by more than the interval of either says."""
REVOKED_DETAIL = "The kernel was revoked in the run: it cheats, or it was derived from a kernel that cheats. Remove it."


Measure = Callable[[int], Future[Outcome]]
"""Queues a measurement of a kernel by its number, from 1."""


class KernelFile(NamedTuple):
    """A kernel to check: where it is and the task of the run that it is for."""

    path: Path
    candidate: Candidate
    task: Task


class CheckPlan:
    """The records of a run, prepared for comparisons. `overrides` change settings with which the run verified its kernels."""

    def __init__(self, run: Run, overrides: Sequence[str] = ()) -> None:
        self.run = run
        self.tasks = {task.id: task for task in run.tasks}
        own = run.config.model_dump(mode="json", exclude={"id", "workers", "executor", "llm_review", "tuning_trials"})
        seed = seed_from_text(f"{run.config.seed}/{run.config.id}/check", bits=48)  # other inputs than those of the run
        self.settings: dict[str, Any] = resolve_config(None, overrides, base=own | {"seed": seed}).model_dump(mode="json")
        self.config: RunConfig = resolve_config(None, base=self.settings)

    @cached_property
    def results(self) -> dict[str, metrics.TaskResult]:
        """The results of the run by task."""
        return {result.task.id: result for result in metrics.collect_results(self.run, self.run.attempts())}

    @cached_property
    def revoked_candidates(self) -> set[str]:
        """Ids of the kernels that were revoked in the run."""
        revoked = self.run.revoked_ids()
        return {attempt.candidate.id for attempt in self.run.journal.read() if attempt.id in revoked}

    @cached_property
    def toolchain(self) -> dict[str, str]:
        """Versions of the toolchain here. Raises UserError if the backend cannot check kernels here."""
        return toolchain_versions(require_backend(self.config))

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the toolchain and of PyTorch here."""
        return {**self.toolchain, **torch_version()}

    @cached_property
    def toolchain_changes(self) -> list[str]:
        """One line for each component whose version differs from the one that the run recorded last.

        The records of the kernels name the PyTorch that computed their references.
        """
        outcomes = [result.best_outcome for result in self.results.values() if result.best_outcome]
        torch = [outcome.versions["torch"] for outcome in outcomes if "torch" in outcome.versions]
        then = dict(self.run.environments()[-1].get("versions", {}))
        return list_toolchain_changes(then | {"torch": torch[-1]}, self.versions) if torch else list_toolchain_changes(then, self.toolchain)

    @cached_property
    def has_same_device(self) -> bool:
        """Whether the run was recorded on a device like the one here."""
        last = self.run.environments()[-1]
        then = {**last.get("hardware", {}), **last.get("versions", {})}
        return is_same_device(then, {**describe_hardware(), **self.toolchain})

    def recorded_kernel(self, kernel: KernelFile) -> RecordedKernel | None:
        """The record of the same code if the run verified it, otherwise the best kernel of the task."""
        result = self.results[kernel.task.id]
        attempts = [attempt for _, attempt in result.correct_attempts]
        best = next((attempt for attempt in attempts if attempt.candidate.id == kernel.candidate.id), result.best)
        if best is None:
            return None
        final = result.reevaluations.get(best.id)
        return RecordedKernel(best.id, best.candidate, final.outcome if final else best.outcome)

    def find_kernels(self, paths: Sequence[Path]) -> list[KernelFile]:
        """The kernels in files, folders, exports and runs; the best kernels of this run if no path is named."""
        kernels = [kernel for path in paths or [self.run.folder] for kernel in self.read_path(path)]
        if not kernels:
            raise UserError(f"no kernel to check: {self.run.folder} has no correct kernel. Give the run more attempts, or name kernels.")
        return kernels

    def read_path(self, path: Path) -> Iterator[KernelFile]:
        """The kernels of one path: a run, an export, a folder of kernels, or a kernel."""
        if not path.exists():
            raise UserError(f"{path} does not exist. Name a kernel, a folder of kernels, an export, or a run.")
        exported = sorted(path.rglob("provenance.json")) if path.is_dir() else []
        if (path / "run.toml").is_file():
            yield from self.read_run(path)
        elif exported:
            yield from (self.read_export(file) for file in exported)
        else:
            for file in list_kernels(path):
                yield KernelFile(file, read_candidate(file, self.config.plugin_name("backend")), self.find_task(file))

    def read_run(self, folder: Path) -> Iterator[KernelFile]:
        """The best kernels of a run for the tasks that both runs have."""
        run = self.run if folder == self.run.folder else Run.open(folder)
        for result in metrics.collect_results(run, run.attempts()):
            if result.best and result.task.id in self.tasks:
                yield KernelFile(run.journal.path, result.best.candidate, self.tasks[result.task.id])

    def read_export(self, file: Path) -> KernelFile:
        """The kernel of one folder that `evokernel export` wrote; its provenance names its task and its files."""
        try:
            provenance = json.loads(file.read_text(encoding="utf-8"))
            task, backend = str(provenance["task"]), str(provenance["backend"]["name"])
            names = list(map(str, provenance.get("files") or [find_plugin("backend", backend).file_name]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{file} is not the provenance of an exported kernel ({type(error).__name__}). Export it again.") from error
        if task not in self.tasks:
            raise UserError(f"{file.parent}: {self.explain_unknown_task(task)}")
        if backend != self.config.plugin_name("backend"):
            raise UserError(f"{file.parent} is a kernel of backend '{backend}', but {self.run.folder} is a run of another. Name its run.")
        try:
            files = {name: read_text(file.parent / name) for name in names}
        except OSError as error:
            raise UserError(f"cannot read {error.filename}: {error.strerror}. Export the kernel again.") from error
        return KernelFile(file.parent / names[0], Candidate(backend=backend, files=files), self.tasks[task])

    def find_task(self, file: Path) -> Task:
        """The task of the run that a file or folder is named after."""
        names = [task for task in self.tasks.values() if file.stem in (task.id.rpartition("/")[2], task.id.replace("/", "_"))]
        if len(names) != 1:
            raise UserError(f"{file} must be named after one task of the run: {self.explain_unknown_task(file.stem)}")
        return names[0]

    def explain_unknown_task(self, name: str) -> str:
        """Which tasks the run has."""
        return f"{self.run.folder} has no task '{name}'{did_you_mean(name, list(self.tasks))}. It has: {', '.join(self.tasks)}."


def torch_version() -> dict[str, str]:
    """The version of PyTorch here; empty if it is not installed."""
    try:
        return {"torch": version("torch")}
    except PackageNotFoundError:
        return {}


def check_kernels(plan: CheckPlan, kernels: Sequence[KernelFile], limit: float, workers: int = 1) -> Iterator[KernelCheck]:
    """Verify each kernel and compare it with the run; `limit` is the largest slowdown that passes, such as 0.05.

    A kernel that differs from the recorded one is measured alternately with it. A measured slowdown is measured again before it counts.
    """
    with VerificationPool(workers, plan.settings) as pool:
        planned = [plan_check(pool, plan, kernel) for kernel in kernels]  # all of them first: a wrong file is refused before work starts
        submitted: list[tuple[KernelFile, RecordedKernel | None, Measure, Future[Outcome] | None]] = []
        for kernel, job in zip(kernels, planned):
            recorded = plan.recorded_kernel(kernel)
            incumbent = recorded.candidate if recorded and recorded.candidate.id != kernel.candidate.id else None
            measure: Measure = partial(submit_measurement, pool, job, incumbent)
            is_revoked = kernel.candidate.id in plan.revoked_candidates
            submitted.append((kernel, recorded, measure, None if is_revoked else measure(1)))
        for kernel, recorded, measure, future in submitted:
            check = judge_kernel(plan, kernel, recorded, future, limit)
            yield confirm_slowdown(plan, check, kernel, limit, measure)


def submit_measurement(pool: VerificationPool, job: PlannedVerification, incumbent: Candidate | None, number: int) -> Future[Outcome]:
    """Queue the verification with this number; each has its own inputs."""
    if number > 1:
        seed = seed_from_text(f"{job.config.seed}/{number}", bits=48)
        job = job._replace(config=job.config.model_copy(update={"seed": seed}))
    return pool.submit(job, ignore_cache=True, incumbent=incumbent)


def confirm_slowdown(plan: CheckPlan, check: KernelCheck, kernel: KernelFile, limit: float, measure: Measure) -> KernelCheck:
    """Measure a slower kernel again, until a measurement does not show the slowdown. Estimates are equal each time."""
    is_changed = check.recorded is not None and check.recorded.candidate.id != kernel.candidate.id
    for number in range(2, (MAX_MEASUREMENTS if is_changed else MAX_SESSIONS) + 1):
        if check.reason != "slower" or check.comparison.interval is None:
            break
        seconds = check.seconds
        check = judge_kernel(plan, kernel, check.recorded, measure(number), limit, number)
        check = check._replace(seconds=check.seconds + seconds)
    return check


def plan_check(pool: VerificationPool, plan: CheckPlan, kernel: KernelFile) -> PlannedVerification:
    """Plan a verification with the baselines of the run. Raises UserError for files that the backend does not take."""
    try:
        return pool.plan(kernel.candidate, kernel.task)._replace(baselines=plan.config.baselines)
    except UserError as error:
        raise UserError(f"{kernel.path}: {error}") from error


def judge_kernel(
    plan: CheckPlan, kernel: KernelFile, recorded: RecordedKernel | None, future: Future[Outcome] | None, limit: float, number: int = 1
) -> KernelCheck:
    """Wait for the outcome of a kernel, of the measurement with this number, and decide whether it passes."""
    check = KernelCheck(kernel.path, kernel.task.id, kernel.candidate, Status.FAILED, recorded=recorded)
    if future is None:
        return check._replace(reason="revoked", detail=REVOKED_DETAIL)
    try:
        outcome = future.result()
    except InfraError as error:
        return check._replace(status=Status.ERROR, reason="infrastructure", detail=str(error))
    check = check._replace(outcome=outcome, seconds=sum(gate.seconds for gate in outcome.gates))
    if failure := outcome.failure:
        return check._replace(reason=failure.reason, detail=f"gate {failure.gate}: {failure.detail or failure.reason}")
    same = {"same_device": plan.has_same_device, "same_toolchain": not plan.toolchain_changes}
    comparison = compare_with_recorded(outcome, kernel.candidate, recorded, limit, **same)._replace(measurements=number)
    check = check._replace(comparison=comparison)
    if comparison.is_slower:
        return check._replace(reason="slower", detail=explain_slowdown(comparison, limit, recorded))
    return check._replace(status=Status.PASSED)


def explain_slowdown(comparison: Comparison, limit: float, recorded: RecordedKernel | None) -> str:
    """What a slower kernel is compared with, and what to do."""
    attempt = f" than {recorded.attempt}" if recorded else ""
    return (
        f"The kernel is slower{attempt}: {describe_comparison(comparison)}. The limit is {100 * limit:g} %. "
        "Make it faster, or allow more with --max-slowdown."
    )
