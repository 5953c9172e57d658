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


def verify_candidate(config: RunConfig, task: Task, candidate: Candidate, baselines: Sequence[str]) -> Outcome:
    """Verify the candidate through all gates. Raises UserError if the backend cannot work here or takes other files."""
    check_llm_review(config)
    executor: Executor = make_part(config, "executor")
    try:
        backend = make_part(config, "backend")
        if not isinstance(executor, RemoteExecutor) and (reason := backend.unavailable_reason()):
            raise UserError(f"backend '{config.plugin_name('backend')}' cannot work on this machine: {reason}")
        require_kernel_source(candidate, backend)
        return executor.submit(make_job(config, task, candidate, seed=config.seed, baselines=baselines)).result()
    finally:
        executor.close()
