"""Final re-evaluation: when a run ends, the verifier checks every task's best kernel again, from scratch and in new processes.

The best kernel was the luckiest of several measurements; the second measurement has no such selection bias. If a kernel fails its
re-evaluation, the next best kernel of the task is re-evaluated as well. The loop never reads these results: a run that is resumed with a
larger budget continues as if it had not stopped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from evokernel.core import final_results
from evokernel.core.errors import InfraError
from evokernel.core.final_results import FinalResult
from evokernel.core.labels import format_attempt
from evokernel.core.records import Attempt, Task
from evokernel.core.run import Run
from evokernel.engine.jobs import reevaluation_job
from evokernel.engine.loop import Engine

log = logging.getLogger(__name__)
INTERRUPTED = "interrupted"
"""Stop reason of a run that the user interrupted; its best kernels are re-evaluated when it is resumed."""


def pending_reevaluations(run: Run) -> list[tuple[Task, Attempt]]:
    """Return each task with its best kernel, if that kernel has no re-evaluation yet."""
    attempts, results = run.attempts(), final_results.read_final_results(run.folder)
    bests = [(task, final_results.best_surviving((a for a in attempts if a.task == task.id), results)) for task in run.tasks]
    return [(task, best) for task, best in bests if best and best.id not in results]


def reevaluate_best(engine: Engine) -> Iterator[FinalResult]:
    """Re-evaluate the best kernels in the order of tasks and yield the results; a kernel is never re-evaluated twice."""
    submitted: set[str] = set()
    while kernels := [(task, best) for task, best in pending_reevaluations(engine.run) if best.id not in submitted]:
        submitted |= {best.id for _, best in kernels}
        jobs = []
        for task, best in kernels:
            engine.notify(task.id, "reevaluate")
            jobs.append((task, best, engine.executor.submit(reevaluation_job(engine.run.config, task, best))))
        for task, best, future in jobs:
            if engine.stop_reason == INTERRUPTED:
                return
            try:
                final = FinalResult(task=task.id, attempt=best.id, outcome=future.result(), finished_at=engine.clock())
            except InfraError as error:
                log.warning("%s: the best kernel was not re-evaluated: %s", task.id, error)
                engine.run.record_incident(task.id, best.round, f"re-evaluation of {format_attempt(best.id)}: {error}", engine.clock())
                continue
            finally:
                engine.notify(task.id, "")
            final_results.append_final_result(engine.run.folder, final)
            yield final
