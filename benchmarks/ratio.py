"""Measures how well a speed ratio repeats: it verifies one unchanged kernel many times and compares it with PyTorch and with itself.

    python benchmarks/ratio.py [--repeats 20] [--tasks starter/softmax,starter/matmul]

Every repeat is a complete verification in fresh processes, with the same kernel as the best so far. The ratio to itself should be 1, and
no confidence interval should call the kernel faster or slower than itself.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Context, Job, Outcome, Stage, Task
from evokernel.core.state import State
from evokernel.core.statistics import is_significant, quantile
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify


def first_correct_draft(task: Task) -> Candidate:
    """Return the first draft of `template_search` that passes."""
    generator = make_plugin("generator", "template_search", backend="cpp", seed=1)
    for round_ in range(20):
        candidate: Candidate = generator.write(State(task=task, round=round_), Context(stage=Stage.DRAFT)).candidate
        if verify(Job(backend="cpp", task=task, candidate=candidate)).feasible:
            return candidate
    raise SystemExit(f"no draft for {task.id} passes")


def format_spread(ratios: Sequence[float]) -> str:
    """Format table cells: the median, the range, and half the width of the interval that contains 95 % of the ratios."""
    median = quantile(ratios, 0.5)
    width = (quantile(ratios, 0.975) - quantile(ratios, 0.025)) / 2 / median
    return f"{median:.3f} | {min(ratios):.3f} to {max(ratios):.3f} | ± {100 * width:.1f} %"


def format_row(task: Task, outcomes: Sequence[Outcome]) -> str:
    """Format the table row of one task."""
    latency_us = quantile([outcome.latency_us or 0.0 for outcome in outcomes], 0.5)
    to_eager, to_itself = (
        [ratio for o in outcomes if (ratio := o.median_speedup(baseline)) is not None] for baseline in ("eager", "incumbent")
    )
    intervals = [interval for o in outcomes if (interval := o.speedup_interval("incumbent"))]
    distinguished_count = sum(is_significant(interval) for interval in intervals)
    seconds = quantile([o.gates[-1].seconds for o in outcomes], 0.5)
    pairs = quantile([float(len(o.samples_us)) for o in outcomes], 0.5)
    cells = (
        f"{format_spread(to_eager)} | {format_spread(to_itself)} | {distinguished_count} of {len(intervals)} | {pairs:.0f} | {seconds:.1f}"
    )
    return f"| {task.id.rpartition('/')[2]} | {latency_us:.0f} | {cells} |"


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--repeats", type=int, default=20)
    options.add_argument("--tasks", default="starter/softmax,starter/matmul,starter/gelu")
    args = options.parse_args()
    loads = [os.getloadavg()[0]]
    print(
        "| task | µs | ratio to PyTorch | range | 95 % | ratio to itself | range | 95 % | distinguished | pairs | s |\n|" + "---|" * 11,
        flush=True,
    )
    for task in load_tasks(args.tasks):
        candidate = first_correct_draft(task)
        outcomes = []
        for _ in range(args.repeats):
            outcome = verify(Job(backend="cpp", task=task, candidate=candidate, incumbent=candidate))
            loads.append(os.getloadavg()[0])
            if outcome.feasible:
                outcomes.append(outcome)
            else:
                print(f"not feasible: {outcome.failure}", flush=True)
        print(format_row(task, outcomes), flush=True)
    print(f"load {min(loads):.1f} to {max(loads):.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
