"""A run on disk whose latencies and failures follow from the code of its kernels, or from chance alone."""

from random import Random

import sample_run
from sample_run import failed_outcome, make_attempt, make_task, passed_outcome

from evokernel.core.records import Candidate

NAMES = tuple(f"op{number}" for number in range(8))


def write_planted_run(folder, seed=0, rounds=6, is_planted=True, backend="cpp"):
    """A run whose latencies follow from the code, or from chance alone; kernels with `alias` fail."""
    random, tasks, attempts = Random(seed), [make_task(name) for name in NAMES], []
    for n in range(rounds):
        for number, task in enumerate(tasks):
            options = [option for option in ("tile", "vectorize", "prefetch", "alias") if random.random() < 0.5]
            code = "\n".join([f"void {task.family}() {{", *(f"  use_{option}();" for option in options), f"  // {n} }}"])
            cost = 2.0 * ("prefetch" in options) - ("vectorize" in options) if is_planted else 0.0
            is_wrong = "alias" in options if is_planted else random.random() < 0.4
            outcome = (
                failed_outcome("check", "mismatch") if is_wrong else passed_outcome(10.0**number * 2.0 ** (cost + random.random() / 4))
            )
            candidate = Candidate(backend=backend, files={"kernel.cpp": code})
            attempts.append(make_attempt(task, n, outcome).model_copy(update={"candidate": candidate}))
    return sample_run.write_run(folder, tasks, attempts, id=folder.name, budget=rounds, backend={"name": backend})
