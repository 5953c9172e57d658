"""Builds verification jobs from the settings of a run: the only place where settings become a `Job`."""

from __future__ import annotations

from collections.abc import Sequence

from evokernel.core.config import RunConfig
from evokernel.core.records import Attempt, Candidate, Job, Task
from evokernel.core.seeds import seed_from_text
from evokernel.core.state import State


def make_job(
    config: RunConfig,
    task: Task,
    candidate: Candidate,
    *,
    seed: int,
    baselines: Sequence[str] | None = None,
    incumbent: Candidate | None = None,
) -> Job:
    """Describe the verification of a candidate under the settings of a run; `baselines` override those of the settings."""
    return Job(
        backend=config.plugin_name("backend"),
        settings=config.plugin_settings("backend"),
        task=task,
        candidate=candidate,
        seed=seed,
        timeout_s=config.timeout_s,
        timing_s=config.timing_s,
        clock=config.clock,
        baselines=config.baselines if baselines is None else tuple(baselines),
        protocol=config.protocol,
        incumbent=incumbent,
        require_sandbox=config.require_sandbox,
        llm_review=config.llm_review,
        tuning_trials=config.tuning_trials,
        tuning_s=config.tuning_s,
    )


def attempt_job(config: RunConfig, state: State, candidate: Candidate) -> Job:
    """Describe the verification of the next attempt on a task: its seed follows from the attempt's id."""
    incumbent = state.best.candidate if state.best else None
    return make_job(config, state.task, candidate, seed=seed_from_text(f"{config.seed}/{state.next_id}", bits=48), incumbent=incumbent)


def trial_job(config: RunConfig, state: State, candidate: Candidate, number: int) -> Job:
    """Describe the verification of a trial within the next attempt: with other inputs than the attempt itself, and without tuning."""
    seed = seed_from_text(f"{config.seed}/{state.next_id}/trial-{number}", bits=48)
    job = attempt_job(config, state, candidate)
    return job.model_copy(update={"seed": seed, "tuning_trials": 0})


def reevaluation_job(config: RunConfig, task: Task, best: Attempt) -> Job:
    """Describe the re-evaluation of a kernel: other inputs than before, no incumbent, and without the outcome cache."""
    job = make_job(config, task, best.candidate, seed=seed_from_text(f"{config.seed}/{best.id}/again", bits=48))
    return job.model_copy(update={"ignore_cache": True})
