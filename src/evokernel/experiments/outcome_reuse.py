"""Outcomes that the runs of one experiment share: arms and seeds write many identical kernels, and each is verified once.

Where latencies are estimates of a model, another verification would give the same outcome. Measured latencies are shared only if the
experiment asks for it: all its runs then search one table, in which each kernel has been measured once. The seed of a verification is not
part of what is compared: a reused outcome means that no new inputs were drawn for this attempt. Re-evaluations are never reused.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future
from pathlib import Path

from evokernel.app import factory
from evokernel.app.guarded_executor import GuardedExecutor
from evokernel.core.backend import Backend
from evokernel.core.protocols import Executor
from evokernel.core.records import Job, Outcome
from evokernel.engine.loop import Engine
from evokernel.verifier import outcome_cache

log = logging.getLogger(__name__)
FOLDER = "outcomes"
"""Subfolder of an experiment with the outcomes that its runs share."""


class ReusingExecutor:
    """Wraps an Executor. `versions` are those of the toolchain; `run_id` is stored with an outcome as its source.

    `includes_measured` says whether measured latencies are shared, too.
    """

    def __init__(
        self, executor: Executor, backend: Backend, versions: dict[str, str], folder: Path, run_id: str, includes_measured: bool = False
    ) -> None:
        self.executor, self.backend, self.versions = executor, backend, versions
        self.folder, self.run_id, self.includes_measured = folder, run_id, includes_measured

    def submit(self, job: Job) -> Future[Outcome]:
        """Return the stored outcome of an identical kernel at once, or queue a verification and store its outcome.

        A measured latency that other runs will reuse is measured without the best kernel of this run: which gate checks it, and what it
        earns, would otherwise depend on the run that came first.
        """
        if self.includes_measured and not job.ignore_cache:
            job = job.model_copy(update={"incumbent": None})
        if job.ignore_cache or job.clock != "auto" or not (self.includes_measured or outcome_cache.is_repeatable(job, self.backend)):
            return self.executor.submit(job)
        path = self.stored_path(job)
        if outcome := outcome_cache.read_outcome(path):
            result: Future[Outcome] = Future()
            result.set_result(outcome)
            return result
        verification = self.executor.submit(job)
        verification.add_done_callback(lambda done: self.store(path, done))
        return verification

    def stored_path(self, job: Job) -> Path:
        """Return the file of an outcome; jobs that differ only in the seed of their inputs share it."""
        key = outcome_cache.outcome_key(job.model_copy(update={"seed": 0}), self.backend, self.versions)
        return outcome_cache.sharded_path(self.folder, key)

    def store(self, path: Path, verification: Future[Outcome]) -> None:
        """Store the outcome of a finished verification, with the run that paid for it."""
        if verification.cancelled() or verification.exception():
            return
        outcome = verification.result()
        outcome_cache.write_outcome(path, outcome.model_copy(update={"reused_from": self.run_id}))

    def close(self) -> None:
        """Close the wrapped executor."""
        self.executor.close()


def share_outcomes(engine: Engine, folder: Path, includes_measured: bool = False) -> None:
    """Let a run reuse the outcomes in `folder` and add its own, if its latencies are estimates or measured ones are included."""
    config = engine.run.config
    backend: Backend = factory.make_part(config, "backend")
    guarded = engine.executor
    is_shared = config.clock == "auto" and (includes_measured or backend.capabilities.is_repeatable)
    if not is_shared or not isinstance(guarded, GuardedExecutor):
        log.info("%s: latencies are not estimates of a model, so every kernel is verified", config.id)
        return
    versions = engine.run.environments()[-1]["versions"]
    guarded.executor = ReusingExecutor(guarded.executor, backend, dict(versions), folder, config.id, includes_measured)
