"""How steady a measured ratio is: one unchanged kernel, judged again and again, held against PyTorch and against itself.

    python benchmarks/ratio.py [--repeats 20] [--tasks starter/softmax,starter/matmul]

Every repeat is a whole verification in fresh processes, with the kernel as its own best so far: the ratio to itself should be 1, and
none of its intervals should say that it is faster or slower.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Context, Job, Outcome, Stage, State, Task
from evokernel.core.statistics import is_significant, quantile
from evokernel.tasks.loader import load
from evokernel.verify import verify


def kernel(task: Task) -> Candidate:
    """The first draft of `sweep` that passes."""
    sweep = make_plugin("generator", "template_search", backend="cpp", seed=1)
    for round in range(20):
        candidate: Candidate = sweep.write(State(task=task, round=round), Context(stage=Stage.DRAFT)).candidate
        if verify(Job(backend="cpp", task=task, candidate=candidate)).feasible:
            return candidate
    raise SystemExit(f"no draft for {task.id} passes")


def spread(ratios: Sequence[float]) -> str:
    """Median, range, and half of the width that holds 95 %, as cells."""
    middle = quantile(ratios, 0.5)
    width = (quantile(ratios, 0.975) - quantile(ratios, 0.025)) / 2 / middle
    return f"{middle:.3f} | {min(ratios):.3f} to {max(ratios):.3f} | ± {100 * width:.1f} %"


def row(task: Task, outcomes: Sequence[Outcome]) -> str:
    """One task's line of the table."""
    latency_us = quantile([outcome.latency_us or 0.0 for outcome in outcomes], 0.5)
    to_eager, to_itself = (
        [found for o in outcomes if (found := o.median_speedup(against)) is not None] for against in ("eager", "incumbent")
    )
    intervals = [interval for o in outcomes if (interval := o.speedup_interval("incumbent"))]
    apart = sum(is_significant(interval) for interval in intervals)
    seconds = quantile([o.gates[-1].seconds for o in outcomes], 0.5)
    pairs = quantile([float(len(o.samples_us)) for o in outcomes], 0.5)
    cells = f"{spread(to_eager)} | {spread(to_itself)} | {apart} of {len(intervals)} | {pairs:.0f} | {seconds:.1f}"
    return f"| {task.id.rpartition('/')[2]} | {latency_us:.0f} | {cells} |"


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--repeats", type=int, default=20)
    options.add_argument("--tasks", default="starter/softmax,starter/matmul,starter/gelu")
    given = options.parse_args()
    loads = [os.getloadavg()[0]]
    print("| task | µs | to PyTorch | range | 95 % | to itself | range | 95 % | told apart | pairs | s |\n|" + "---|" * 11, flush=True)
    for task in load(given.tasks):
        candidate = kernel(task)
        outcomes = []
        for _ in range(given.repeats):
            outcome = verify(Job(backend="cpp", task=task, candidate=candidate, incumbent=candidate))
            loads.append(os.getloadavg()[0])
            if outcome.feasible:
                outcomes.append(outcome)
            else:
                print(f"not feasible: {outcome.failure}", flush=True)
        print(row(task, outcomes), flush=True)
    print(f"load {min(loads):.1f} to {max(loads):.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
