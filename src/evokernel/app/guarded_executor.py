"""Between the loop and its judges: code that was found out is refused at once, and what the judges' own model costs is counted."""

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
    from evokernel.llm.cost_tracker import Account

KNOWN = "this very code was found to cheat, and revoked"


class GuardedExecutor:
    """An Executor around another one. `refused` are ids of candidates; `ledger` is where calls of the audit's model are counted."""

    def __init__(self, executor: Executor, refused: Collection[str], audit: Settings, ledger: Path) -> None:
        self.executor, self.refused = executor, refused
        self.account = account(audit, ledger) if audit else None

    def submit(self, job: Job) -> Future[Outcome]:
        """The judge's future, or a verdict that needs no judge. Raises StopRun once the audit's budget is spent."""
        seen: Future[Outcome] = Future()
        if job.candidate.id in self.refused:
            seen.set_result(Outcome(gates=(GateResult(gate="screen", passed=False, reason="revoked", detail=KNOWN),)))
            return seen
        if self.account is None:
            return self.executor.submit(job)
        if not job.ignore_cache:  # what it was asked about before costs nothing
            self.account.check()
        self.executor.submit(job).add_done_callback(lambda judged: self.hand_on(judged, seen))
        return seen

    def hand_on(self, judged: Future[Outcome], seen: Future[Outcome]) -> None:
        """Enters what a verdict cost, then gives it to whoever waits for it."""
        if judged.cancelled():
            seen.cancel()
        elif error := judged.exception():
            seen.set_exception(error)
        else:
            try:
                self.book(judged.result())
                seen.set_result(judged.result())
            except UserError as full_disk:
                seen.set_exception(full_disk)

    def book(self, outcome: Outcome) -> None:
        """A line per verdict that a model was paid for."""
        from evokernel.llm.cost_tracker import Row

        usage = outcome.usage
        if self.account and usage.calls:
            cost = (usage.input_tokens, usage.output_tokens, None, usage.cost_usd, round(usage.seconds, 3))
            self.account.enter(Row(time.time(), usage.model, *cost, usage.calls - 1, True))

    def close(self) -> None:
        self.executor.close()


def account(audit: Settings, ledger: Path) -> Account:
    """What the audit has spent in this run so far."""
    from evokernel.llm.cost_tracker import Account
    from evokernel.verify.llm_review import chat_settings

    found = Account(chat_settings(audit), "", "audit")
    found.open(ledger)
    return found
