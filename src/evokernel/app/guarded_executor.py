"""An executor between the loop and the verifier: it refuses revoked code at once, and records the cost of the LLM review."""

from __future__ import annotations

import time
from collections.abc import Collection
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.core.errors import UserError
from evokernel.core.protocols import Executor
from evokernel.core.records import GateResult, Job, Outcome, Settings

if TYPE_CHECKING:
    from evokernel.llm.cost_tracker import CostTracker

REVOKED_DETAIL = "This exact code was revoked because it cheats. Write a different kernel."


class GuardedExecutor:
    """Wraps an Executor. `revoked_candidates` are candidate ids; `ledger` is the file that records the calls of the reviewing model."""

    def __init__(self, executor: Executor, revoked_candidates: Collection[str], llm_review: Settings, ledger: Path) -> None:
        self.executor, self.revoked_candidates = executor, revoked_candidates
        self.cost_tracker = open_cost_tracker(llm_review, ledger) if llm_review else None

    def submit(self, job: Job) -> Future[Outcome]:
        """Queue a verification, or refuse revoked code at once. Raises StopRun if the budget of the LLM review is spent."""
        result: Future[Outcome] = Future()
        if job.candidate.id in self.revoked_candidates:
            result.set_result(Outcome(gates=(GateResult(gate="screen", passed=False, reason="revoked", detail=REVOKED_DETAIL),)))
            return result
        if self.cost_tracker is None:
            return self.executor.submit(job)
        if not job.ignore_cache:  # a re-evaluation uses the cached review, which costs nothing
            self.cost_tracker.check_budget()
        self.executor.submit(job).add_done_callback(lambda verification: self.forward_result(verification, result))
        return result

    def forward_result(self, verification: Future[Outcome], result: Future[Outcome]) -> None:
        """Record the cost of a finished verification, then pass its outcome or exception on to `result`."""
        if verification.cancelled():
            result.cancel()
        elif error := verification.exception():
            result.set_exception(error)
        else:
            try:
                self.record_cost(verification.result())
                result.set_result(verification.result())
            except UserError as full_disk:
                result.set_exception(full_disk)

    def record_cost(self, outcome: Outcome) -> None:
        """Append the cost of an outcome's model calls to the ledger, if it made any."""
        from evokernel.llm.cost_tracker import RequestRow

        usage = outcome.usage
        if self.cost_tracker and usage.calls:
            cost = (usage.input_tokens, usage.output_tokens, None, usage.cost_usd, round(usage.seconds, 3))
            self.cost_tracker.record_request(RequestRow(time.time(), usage.model, *cost, usage.calls - 1, True))

    def close(self) -> None:
        """Close the wrapped executor."""
        self.executor.close()


def open_cost_tracker(llm_review: Settings, ledger: Path) -> CostTracker:
    """Return a cost tracker with the cost of the LLM review in this run so far."""
    from evokernel.llm.cost_tracker import CostTracker
    from evokernel.verifier.llm_review import make_chat_settings

    tracker = CostTracker(make_chat_settings(llm_review), "", "llm_review")
    tracker.open_ledger(ledger)
    return tracker
