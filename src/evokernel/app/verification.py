"""Verifies one candidate outside a run, with the executor and the settings that a run would use."""

from __future__ import annotations

from collections.abc import Sequence

from evokernel.app.factory import check_llm_review, make_part
from evokernel.app.kernel_files import require_kernel_source
from evokernel.core.config import RunConfig
from evokernel.core.errors import UserError
from evokernel.core.protocols import Executor, RemoteExecutor
from evokernel.core.records import Candidate, Outcome, Task
from evokernel.engine.jobs import make_job
from evokernel.engine.tuning import VerifiedKernel, verify_and_tune


def verify_candidate(config: RunConfig, task: Task, candidate: Candidate, baselines: Sequence[str]) -> Outcome:
    """Return the outcome of the candidate, without tuning it."""
    return verify_kernel(config.model_copy(update={"tuning_trials": 0}), task, candidate, baselines).outcome


def verify_kernel(config: RunConfig, task: Task, candidate: Candidate, baselines: Sequence[str]) -> VerifiedKernel:
    """Verify the candidate through all gates, and tune it if the settings allow trials.

    Raises UserError if the backend cannot work here or takes other files.
    """
    check_llm_review(config)
    executor: Executor = make_part(config, "executor")
    try:
        backend = make_part(config, "backend")
        if not isinstance(executor, RemoteExecutor) and (reason := backend.unavailable_reason()):
            raise UserError(f"backend '{config.plugin_name('backend')}' cannot work on this machine: {reason}")
        require_kernel_source(candidate, backend)
        return verify_and_tune(executor, make_job(config, task, candidate, seed=config.seed, baselines=baselines))
    finally:
        executor.close()
