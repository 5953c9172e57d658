"""What stopping early would have saved and lost in runs that went on: `python results/stopping.py FOLDER` (of `refine.toml`)."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import exp, log
from pathlib import Path
from statistics import mean

from evokernel.core.records import Attempt
from evokernel.core.run import Run
from evokernel.core.statistics import bests, expected_gain

LEAST = (0.05, 0.1, 0.15, 0.2, 0.25)


def paths(folder: Path) -> Iterator[list[Attempt]]:
    """All attempts on an operator, of every seed of the arm that spends its budget."""
    for run in sorted(folder.glob("budget-*")):
        by_task: dict[str, list[Attempt]] = defaultdict(list)
        for attempt in Run.open(run).attempts():
            by_task[attempt.task].append(attempt)
        yield from by_task.values()


def kept(made: Sequence[Attempt], least: float) -> int:
    """How many attempts are made before so little is expected of the next."""
    return next((count for count in range(1, len(made)) if expected_gain(made[:count]) < least), len(made))


def main(folder: Path) -> None:
    found = list(paths(folder))
    print("least_gain: attempts saved, speed of best kernels that is left (geometric mean), operators whose best is slower")
    for least in LEAST:
        left = []
        for made in found:
            now, then = bests(made)[kept(made, least) - 1], bests(made)[-1]
            if now and then and now.outcome.latency_us and then.outcome.latency_us:
                left.append(log(then.outcome.latency_us / now.outcome.latency_us))
        saved = 1 - sum(kept(made, least) for made in found) / sum(map(len, found))
        print(f"{least}: {saved:.0%}, {exp(mean(left)):.2f}×, {sum(one < 0 for one in left)} of {len(left)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
