"""The end of a run: every task's best kernel is judged once more, from the beginning and in fresh processes.

A best was the luckiest of several measurements; the second one has not been chosen for anything. A kernel that does not hold up makes
room for the next best, which is judged again as well. The loop itself never looks at any of this: a run that is resumed with a larger
budget goes on as if it had not stopped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from evokernel.core import final_results
from evokernel.core.errors import InfraError
from evokernel.core.final_results import FinalResult
from evokernel.core.records import Attempt, Job, State, Task
from evokernel.core.run import Run
from evokernel.engine.loop import Engine, seed_from_text

log = logging.getLogger(__name__)
BY_USER = "interrupted"
"""Why a run stopped whose user wants it to end now: its bests are judged again when it is resumed."""


def pending(run: Run) -> list[tuple[Task, Attempt]]:
    """The bests that were not judged again yet."""
    made, known = run.attempts(), final_results.read_final_results(run.folder)
    found = [(task, final_results.best_surviving((a for a in made if a.task == task.id), known)) for task in run.tasks]
    return [(task, best) for task, best in found if best and best.id not in known]


def reevaluate_best(engine: Engine) -> Iterator[FinalResult]:
    """Each best's second judgement, in the order of tasks; nothing is judged a third time, also when the run is resumed."""
    tried: set[str] = set()
    while found := [(task, best) for task, best in pending(engine.run) if best.id not in tried]:
        tried |= {best.id for _, best in found}
        jobs = []
        for task, best in found:
            engine.notify(task.id, "again")
            jobs.append((task, best, engine.executor.submit(job(engine, task, best))))
        for task, best, future in jobs:
            if engine.stop_reason == BY_USER:
                return
            try:
                final = FinalResult(task=task.id, attempt=best.id, outcome=future.result(), at=engine.clock())
            except InfraError as error:
                log.warning("%s: the best kernel was not judged again: %s", task.id, error)
                engine.run.record_incident(task.id, best.round, f"judging {best.id} again: {error}", engine.clock())
                continue
            finally:
                engine.notify(task.id, "")
            final_results.append_final_result(engine.run.folder, final)
            yield final


def job(engine: Engine, task: Task, best: Attempt) -> Job:
    """As for any candidate, but with other inputs, and whatever is remembered about it."""
    given = engine.job(State(task=task), best.candidate)
    return given.model_copy(update={"seed": seed_from_text(f"{engine.run.config.seed}/{best.id}/again"), "incumbent": None, "again": True})
