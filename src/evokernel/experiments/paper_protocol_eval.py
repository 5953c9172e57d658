"""The published protocol's number for runs that went by the strict one: what strict refused is judged once more, operator by operator.

Only operators without a feasible kernel are looked at, and only until one of their kernels passes; the runs themselves stay as they are.
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
from evokernel.engine.final_eval import job
from evokernel.engine.loop import Engine
from evokernel.experiments.arm_runs import Listener
from evokernel.reports.metrics import Tried

log = logging.getLogger(__name__)
FILE = "looser.jsonl"


def refused(tried: Tried) -> list[Attempt]:
    """Kernels of an operator that compile but failed, of which none was judged by the other protocol and passed; the latest first."""
    known = tried.others or {}
    if tried.solved or any(final.outcome.feasible for final in known.values()):
        return []
    return [attempt for attempt in reversed(tried.attempts) if attempt.outcome.is_compiled and attempt.id not in known]


def judged(tries: list[Tried], folder: Path, listen: Listener) -> list[Tried]:
    """The same operators, with what the published protocol says of kernels that the loop refused."""
    known = with_others(tries, read(folder))
    if any(map(refused, known)):
        engine = factory.resume_engine(folder)
        engine.run.config = engine.run.config.model_copy(update={"protocol": "paper"})  # in memory: the run's own stays
        try:
            for tried in known:
                for final in found(engine, tried):
                    append_line(folder / FILE, final.model_dump_json())
                    listen(engine.run, final)
        finally:
            engine.close()
    return with_others(tries, read(folder))


def found(engine: Engine, tried: Tried) -> Iterator[FinalResult]:
    """Verdicts on one operator's kernels, until one passes."""
    for attempt in refused(tried):
        try:
            outcome = engine.executor.submit(job(engine, tried.task, attempt)).result()
        except InfraError as error:
            log.warning("%s was not judged by the published protocol: %s", attempt.id, error)
            continue
        yield FinalResult(task=tried.task.id, attempt=attempt.id, outcome=outcome, at=engine.clock())
        if outcome.feasible:
            return


def read(folder: Path) -> list[FinalResult]:
    """What was found before."""
    path = folder / FILE
    if not path.exists():
        return []
    Journal(path).repair()
    try:
        return [FinalResult.model_validate_json(line) for line in path.read_text().splitlines()]
    except ValidationError as error:
        raise UserError(f"{path} is damaged ({error.errors()[0]['msg']}): remove it, and the same command judges again") from error


def with_others(tries: list[Tried], finals: list[FinalResult]) -> list[Tried]:
    return [replace(tried, others={final.attempt: final for final in finals if final.task == tried.task.id}) for tried in tries]


def is_wanted(run: Run, again: str | None) -> bool:
    """Where the loop was strict and bests are judged again as published."""
    return run.config.protocol == "strict" and again == "paper"
