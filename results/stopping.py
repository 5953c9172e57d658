"""Computes what early stopping would have saved and lost in runs that used their budget: `python results/stopping.py FOLDER`.

FOLDER is the output of `evokernel experiment results/refine.toml`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import exp, log
from pathlib import Path
from statistics import mean

from evokernel.core.records import Attempt
from evokernel.core.run import Run
from evokernel.core.state import best_so_far, expected_gain

THRESHOLDS = (0.05, 0.1, 0.15, 0.2, 0.25)


def attempts_by_operator(folder: Path) -> Iterator[list[Attempt]]:
    """Yield all attempts on each operator, for every seed of the arm that uses its budget."""
    for run in sorted(folder.glob("budget-*")):
        by_task: dict[str, list[Attempt]] = defaultdict(list)
        for attempt in Run.open(run).attempts():
            by_task[attempt.task].append(attempt)
        yield from by_task.values()


def count_until_stop(attempts: Sequence[Attempt], min_gain: float) -> int:
    """Return the number of attempts before the expected gain of the next one falls below the threshold."""
    return next((count for count in range(1, len(attempts)) if expected_gain(attempts[:count]) < min_gain), len(attempts))


def main(folder: Path) -> None:
    operators = list(attempts_by_operator(folder))
    print("min_expected_gain: share of attempts saved, remaining speed of best kernels (geometric mean), operators whose best is slower")
    for min_gain in THRESHOLDS:
        log_ratios = []
        for attempts in operators:
            stopped_best, final_best = best_so_far(attempts)[count_until_stop(attempts, min_gain) - 1], best_so_far(attempts)[-1]
            if stopped_best and final_best and stopped_best.outcome.latency_us and final_best.outcome.latency_us:
                log_ratios.append(log(final_best.outcome.latency_us / stopped_best.outcome.latency_us))
        saved_share = 1 - sum(count_until_stop(attempts, min_gain) for attempts in operators) / sum(map(len, operators))
        slower_count = sum(one < 0 for one in log_ratios)
        print(f"{min_gain}: {saved_share:.0%}, {exp(mean(log_ratios)):.2f}×, {slower_count} of {len(log_ratios)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
