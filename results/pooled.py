"""Compares arms over all operators of an experiment, whatever their group: `python results/pooled.py FILE FOLDER [DECIDING]`.

The report of `evokernel experiment` compares them for each group. The first DECIDING pairs of the file (3) get p values with Holm's
correction for their number. Pairs of which a run is missing or not complete in any seed are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

from evokernel.core.run import Run
from evokernel.experiments.intervals import holm_adjust
from evokernel.experiments.metrics import Metric, correct_within, format_ratio, format_share, log_speedup_over
from evokernel.experiments.spec import ExperimentSpec, read_spec
from evokernel.reports.metrics import TaskResult, collect_results

CORRECT = Metric("correct at the first attempt", correct_within(1), "share")
SPEED = Metric("speed of best kernels", log_speedup_over("eager"), "ratio")


def read_arm(spec: ExperimentSpec, folder: Path, arm: str) -> dict[int, list[TaskResult]] | None:
    """Return the results of an arm by seed; None if a run is missing or not complete."""
    by_seed = {}
    for seed in range(spec.seeds):
        place = folder / f"{arm}-{seed}"
        if not (place / "run.toml").exists():
            return None
        run = Run.open(place)
        attempts = run.attempts()
        if not run.is_complete(attempts):
            return None
        by_seed[seed] = collect_results(run, attempts)
    return by_seed


def main(file: str, folder: Path, deciding: int = 3) -> None:
    spec = read_spec(file)
    arms = {arm.name: results for arm in spec.arms if (results := read_arm(spec, folder, arm.name))}
    for name, results in arms.items():
        shares, speeds = CORRECT.mean_interval(results), SPEED.mean_interval(results)
        figures = f"{format_share(shares)} correct at the first attempt; speed {format_ratio(speeds)}"
        print(f"{name:24} {len(results[0])} operators: {figures}")
    pairs = [pair for pair in spec.compare if set(pair) <= arms.keys()]
    differences = {pair: CORRECT.paired_difference(arms[pair[0]], arms[pair[1]]) for pair in pairs}
    decisive = [pair for pair in spec.compare[:deciding] if pair in differences]
    adjusted = dict(zip(decisive, holm_adjust([differences[pair].p for pair in decisive]), strict=True))
    for pair in pairs:
        speed = SPEED.paired_difference(arms[pair[0]], arms[pair[1]])
        corrected = f"; p with Holm's correction {adjusted[pair]:.3f}" if pair in adjusted else ""
        print(f"{pair[0]} - {pair[1]}: {CORRECT.format_difference(differences[pair])}{corrected}; speed {SPEED.format_difference(speed)}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:4]))
