"""Evaluates under the paper protocol the attempts that a strict run rejected, to report the accuracy under both protocols.

It evaluates only operators without a correct kernel, and stops at the first kernel that passes. The runs themselves are unchanged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from evokernel.app import factory
from evokernel.core.errors import InfraError, UserError
from evokernel.core.final_results import FinalResult
from evokernel.core.journal import Journal, append_line
from evokernel.core.records import Attempt
from evokernel.core.run import Run
from evokernel.engine.jobs import reevaluation_job
from evokernel.engine.loop import Engine
from evokernel.experiments.arm_runs import Listener, find_shared_executor
from evokernel.experiments.run_session import RunSession, TimeLimitReached
from evokernel.reports.metrics import TaskResult

log = logging.getLogger(__name__)
FILE = "paper_eval.jsonl"


def rejected_attempts(result: TaskResult) -> list[Attempt]:
    """Return attempts that compile but failed, latest first; none if the operator is solved or one of them passed the paper protocol."""
    evaluated = result.other_protocol_results or {}
    if result.is_solved or any(final.outcome.feasible for final in evaluated.values()):
        return []
    return [attempt for attempt in reversed(result.attempts) if attempt.outcome.is_compiled and attempt.id not in evaluated]


def evaluate_rejected(
    task_results: list[TaskResult], folder: Path, listen: Listener, session: RunSession | None = None
) -> list[TaskResult]:
    """Return the results with the outcomes under the paper protocol of the attempts that the loop rejected.

    Raises TimeLimitReached if the time of the session ends before.
    """
    earlier_results = attach_outcomes(task_results, read_outcomes(folder))
    if any(map(rejected_attempts, earlier_results)):
        executor = find_shared_executor(session, Run.open(folder).config)
        engine = factory.resume_engine(folder, executor=executor)
        engine.run.config = engine.run.config.model_copy(update={"protocol": "paper"})  # in memory only: run.toml is unchanged
        try:
            for result in earlier_results:
                if session and session.is_over:
                    raise TimeLimitReached
                for final in evaluate_task(engine, result):
                    append_line(folder / FILE, final.model_dump_json())
                    listen(engine.run, final)
        finally:
            engine.close(stop_workers=executor is None)
    return attach_outcomes(task_results, read_outcomes(folder))


def evaluate_task(engine: Engine, result: TaskResult) -> Iterator[FinalResult]:
    """Evaluate one operator's rejected attempts until one passes."""
    for attempt in rejected_attempts(result):
        try:
            outcome = engine.executor.submit(reevaluation_job(engine.run.config, result.task, attempt)).result()
        except InfraError as error:
            log.warning("%s was not evaluated under the paper protocol: %s", attempt.id, error)
            continue
        yield FinalResult(task=result.task.id, attempt=attempt.id, outcome=outcome, finished_at=engine.clock())
        if outcome.feasible:
            return


def read_outcomes(folder: Path) -> list[FinalResult]:
    """Read the outcomes that were evaluated before."""
    path = folder / FILE
    if not path.exists():
        return []
    Journal(path).repair()
    try:
        return [FinalResult.model_validate_json(line) for line in path.read_text().splitlines()]
    except ValidationError as error:
        raise UserError(f"{path} is damaged ({error.errors()[0]['msg']}). Remove it; the same command then evaluates again.") from error


def attach_outcomes(task_results: list[TaskResult], finals: list[FinalResult]) -> list[TaskResult]:
    """Return the results with the outcomes of the other protocol."""
    return [
        replace(result, other_protocol_results={final.attempt: final for final in finals if final.task == result.task.id})
        for result in task_results
    ]


def is_needed(run: Run, final_protocol: str | None) -> bool:
    """Whether the loop's protocol is strict and the re-evaluation's is the paper's."""
    return run.config.protocol == "strict" and final_protocol == "paper"
