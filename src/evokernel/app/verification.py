"""Verifies candidates outside a run, with the executor and the settings that a run would use, and keeps what was found in a memory bank."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from evokernel.app.factory import check_llm_review, load_sized_tasks, make_part, make_working_backend, open_bank
from evokernel.app.kernel_files import STDIN, detect_backend, list_kernels, read_candidate, require_kernel_source
from evokernel.core.config import RunConfig
from evokernel.core.environment import describe_hardware
from evokernel.core.errors import CandidateError, UserError
from evokernel.core.protocols import Executor, GateListener, RemoteExecutor, ReportingExecutor
from evokernel.core.records import Attempt, Candidate, Outcome, Stage, Task
from evokernel.core.run import new_run_id
from evokernel.core.tunables import read_tunables
from evokernel.engine.attempt_maker import compute_reward
from evokernel.engine.jobs import make_job
from evokernel.engine.tuning import VerifiedKernel, verify_and_tune
from evokernel.memory.distill import distill

DEFAULT_TRIALS = 24
"""Settings of a kernel's tunables that are tried if the user asks for tuning and names no number."""


class VerificationRequest(NamedTuple):
    """One kernel to verify: where it was read, for which task, and with which settings."""

    path: Path
    config: RunConfig
    task: Task
    kernel: Candidate


def plan_verifications(
    paths: Sequence[Path], spec: str, backend: str | None, settings_for: Callable[[str], RunConfig]
) -> list[VerificationRequest]:
    """Find the kernels of files and folders and the task of each: the only one of `spec`, or the one that the kernel is named after."""
    if STDIN in paths and backend is None:
        raise UserError("a kernel on stdin has no name: name its language, such as --backend cpp")
    requests, tasks = [], dict[str, list[Task]]()
    for path in chain.from_iterable(map(list_kernels, paths)):
        name = backend or detect_backend(path)
        config = settings_for(name)
        kernel = read_candidate(path, name)
        tasks[name] = tasks.get(name) or load_sized_tasks(config, spec)
        requests.append(VerificationRequest(path, config, find_task(path, spec, tasks[name]), kernel))
    return requests


def find_task(path: Path, spec: str, tasks: Sequence[Task]) -> Task:
    """Return the only task, or the one that a kernel is named after."""
    named_tasks = [task for task in tasks if len(tasks) == 1 or Path(task.id).name == path.stem]
    if len(named_tasks) != 1:
        raise UserError(
            f"'{spec}' names {len(tasks)} tasks, and {path} is named after none of them. "
            f"Name one, such as --task {tasks[0].id}, or rename the file, such as {Path(tasks[0].id).name}{path.suffix}."
        )
    return named_tasks[0]


def remember_outcomes(results: Sequence[tuple[VerificationRequest, Candidate, Outcome]]) -> int:
    """Keep verified kernels in the memory bank of their settings, as the attempts of one run per backend; return the number of items."""
    count = 0
    for backend in dict.fromkeys(request.kernel.backend for request, _, _ in results):
        batch = [result for result in results if result[0].kernel.backend == backend]
        config = batch[0][0].config.model_copy(update={"id": new_run_id([backend, "verify"])})
        environment = {"versions": dict(batch[0][2].versions), "hardware": describe_hardware()}
        earlier: dict[str, list[Attempt]] = defaultdict(list)
        with open_bank(config, None, make_part(config, "embedder"), environment) as bank:
            for request, kernel, outcome in batch:
                attempts = earlier[request.task.id]
                attempt = make_outside_attempt(config.id, request.task, kernel, outcome, len(attempts))
                items = distill(request.task, attempt, attempts)
                bank.add(items)
                attempts.append(attempt)
                count += len(items)
    return count


def make_outside_attempt(run_id: str, task: Task, kernel: Candidate, outcome: Outcome, number: int) -> Attempt:
    """The record of a kernel that no generator wrote and that saw no context."""
    return Attempt(
        id=f"{task.id}/{number}",
        run=run_id,
        task=task.id,
        round=number,
        stage=Stage.DRAFT,
        candidate=kernel,
        outcome=outcome,
        reward=compute_reward(Stage.DRAFT, outcome, None),
        finished_at=time.time(),
    )


def enable_tuning(config: RunConfig, kernel: Candidate) -> RunConfig:
    """The settings with trials. Raises UserError for a kernel without tunables."""
    try:
        if not read_tunables(kernel.files).tunables:
            comment = "#" if all(name.endswith(".py") for name in kernel.files) else "//"
            raise UserError(f"the kernel declares no tunables. Add a comment such as '{comment} tune: TILE = 64 | 128' to a constant.")
    except CandidateError as error:
        raise UserError(error.detail) from error
    return config if config.tuning_trials else config.model_copy(update={"tuning_trials": DEFAULT_TRIALS})


def verify_candidate(
    config: RunConfig, task: Task, candidate: Candidate, baselines: Sequence[str], on_gate: GateListener | None = None
) -> Outcome:
    """Return the outcome of the candidate, without tuning it."""
    return verify_kernel(config.model_copy(update={"tuning_trials": 0}), task, candidate, baselines, on_gate).outcome


def verify_kernel(
    config: RunConfig, task: Task, candidate: Candidate, baselines: Sequence[str], on_gate: GateListener | None = None
) -> VerifiedKernel:
    """Verify the candidate through all gates, and tune it if the settings allow trials; an executor that can calls `on_gate` meanwhile.

    Raises UserError if the backend cannot work here or takes other files.
    """
    check_llm_review(config)
    executor: Executor = make_part(config, "executor")
    try:
        is_remote = isinstance(executor, RemoteExecutor)
        require_kernel_source(candidate, make_part(config, "backend") if is_remote else make_working_backend(config))
        job = make_job(config, task, candidate, seed=config.seed, baselines=baselines)
        if on_gate and isinstance(executor, ReportingExecutor):
            executor.on_gate = on_gate
            job = job.model_copy(update={"reports_gates": True})
        return verify_and_tune(executor, job)
    finally:
        executor.close()
