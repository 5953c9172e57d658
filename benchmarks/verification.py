"""Measures verification throughput: attempts per minute with one and with two workers, and the time per gate.

    python benchmarks/verification.py [--attempts 24] [--backend pallas]

The candidates come from `template_search` for the starter operators and are verified completely. Both worker counts verify the same
candidates with different seeds, so that no outcome comes from the cache. On `pallas` the baselines, which are computed once per task, are
computed first and timed separately.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict

from evokernel.core.labels import format_count
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Context, Job, Stage
from evokernel.core.state import State
from evokernel.executors.local import LocalExecutor
from evokernel.suites.loader import load_tasks


def make_jobs(count: int, backend: str) -> list[Job]:
    """Return jobs with the first drafts of `template_search`, task by task."""
    tasks, generator, drafts = load_tasks("starter"), make_plugin("generator", "template_search", backend=backend, seed=1), []
    for n in range(count):
        state = State(task=tasks[n % len(tasks)], round=n // len(tasks))
        candidate = generator.write(state, Context(stage=Stage.DRAFT)).candidate
        drafts.append(Job(backend=backend, task=state.task, candidate=candidate, seed=n))
    return drafts


def with_new_seed(job: Job, turn: int) -> Job:
    """Return the same job with other inputs, so that its outcome is not cached."""
    return job.model_copy(update={"seed": job.seed + 1000 * turn + int(time.time()) * 100_000})


def cache_baselines() -> None:
    """Estimate XLA's programs and cache the results for the runs that follow."""
    from evokernel.backends.pallas.baseline import baseline_us
    from evokernel.backends.pallas.chips import get_chip

    start_s = time.perf_counter()
    baselines_us = [baseline_us(task, get_chip("v5e")) for task in load_tasks("starter")]
    print(
        f"baselines: {sum(us is not None for us in baselines_us)} of {len(baselines_us)} in {time.perf_counter() - start_s:.1f} s",
        flush=True,
    )


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--attempts", type=int, default=24)
    options.add_argument("--backend", default="cpp")
    args = options.parse_args()
    jobs = make_jobs(args.attempts, args.backend)
    if args.backend == "pallas":
        cache_baselines()
    rates: dict[int, float] = {}
    for workers in (1, 2):
        executor = LocalExecutor(workers=workers)
        warm_up = [executor.submit(with_new_seed(jobs[n], 10 + workers)) for n in range(workers)]
        for future in warm_up:
            future.result()
        start_s = time.perf_counter()
        outcomes = [future.result() for future in [executor.submit(with_new_seed(job, workers)) for job in jobs]]
        rates[workers] = len(jobs) / (time.perf_counter() - start_s) * 60
        executor.close()
        print(
            f"{format_count(workers, 'worker')}: {rates[workers]:.0f} attempts per minute; "
            f"{sum(o.feasible for o in outcomes)} of {len(jobs)} feasible",
            flush=True,
        )
        if workers == 1:
            seconds_by_gate: dict[str, list[float]] = defaultdict(list)
            for outcome in outcomes:
                for gate in outcome.gates:
                    seconds_by_gate[gate.gate].append(gate.seconds)
            for gate, seconds in seconds_by_gate.items():
                print(f"  {gate}: {sum(seconds) / len(seconds):.2f} s mean of {len(seconds)}, longest {max(seconds):.2f} s")
    print(f"two workers do {rates[2] / rates[1]:.2f} times the work of one")


if __name__ == "__main__":
    main()
