"""Verification throughput: attempts per minute with one and with two workers, and where the time of one goes.

    python benchmarks/verification.py [--attempts 24] [--backend pallas]

Real candidates from `sweep` for the starter operators, judged for real; both worker counts see the same candidates, with other seeds, so
that no verdict is found again. On `pallas` the baselines, which are made once per task, are made first and timed apart.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict

from evokernel.core.plugins import make_plugin
from evokernel.core.records import Context, Job, Stage, State
from evokernel.executors.local import Local
from evokernel.tasks.loader import load


def jobs(count: int, backend: str) -> list[Job]:
    """The first drafts of `sweep`, task by task."""
    tasks, sweep, made = load("starter"), make_plugin("generator", "template_search", backend=backend, seed=1), []
    for n in range(count):
        state = State(task=tasks[n % len(tasks)], round=n // len(tasks))
        candidate = sweep.write(state, Context(stage=Stage.DRAFT)).candidate
        made.append(Job(backend=backend, task=state.task, candidate=candidate, seed=n))
    return made


def again(job: Job, times: int) -> Job:
    """The same job with inputs of its own."""
    return job.model_copy(update={"seed": job.seed + 1000 * times + int(time.time()) * 100_000})


def make_baselines() -> None:
    """XLA's own programs, kept for the runs that follow."""
    from evokernel.backends.pallas.baseline import baseline_us
    from evokernel.backends.pallas.chips import chip

    begun = time.perf_counter()
    found = [baseline_us(task, chip("v5e")) for task in load("starter")]
    print(f"baselines: {sum(us is not None for us in found)} of {len(found)} in {time.perf_counter() - begun:.1f} s", flush=True)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--attempts", type=int, default=24)
    options.add_argument("--backend", default="cpp")
    given = options.parse_args()
    work = jobs(given.attempts, given.backend)
    if given.backend == "pallas":
        make_baselines()
    rates: dict[int, float] = {}
    for workers in (1, 2):
        executor = Local(workers=workers)
        warm = [executor.submit(again(work[n], 10 + workers)) for n in range(workers)]
        for future in warm:
            future.result()
        begun = time.perf_counter()
        outcomes = [future.result() for future in [executor.submit(again(job, workers)) for job in work]]
        rates[workers] = len(work) / (time.perf_counter() - begun) * 60
        executor.close()
        print(
            f"{workers} worker(s): {rates[workers]:.0f} attempts per minute; {sum(o.feasible for o in outcomes)} of {len(work)} feasible",
            flush=True,
        )
        if workers == 1:
            spent: dict[str, list[float]] = defaultdict(list)
            for outcome in outcomes:
                for gate in outcome.gates:
                    spent[gate.gate].append(gate.seconds)
            for gate, seconds in spent.items():
                print(f"  {gate}: {sum(seconds) / len(seconds):.2f} s mean of {len(seconds)}, longest {max(seconds):.2f} s")
    print(f"two workers do {rates[2] / rates[1]:.2f} times the work of one")


if __name__ == "__main__":
    main()
