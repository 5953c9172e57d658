"""Prints how many operators an experiment needs: `python results/power.py FOLDER ARM OTHER [SMALLEST]`, from two arms of a recorded one.

SMALLEST is the smallest difference worth having of the share that is correct at the first attempt; 0.08 is 8 percentage points.
"""

from __future__ import annotations

import sys
from pathlib import Path

from evokernel.experiments.power import POWER, count_operators_needed, detectable_difference, estimate_variance, read_differences

SEEDS = (3, 5, 10)


def main(folder: Path, arm: str, other: str, smallest: float) -> None:
    differences = read_differences(folder, arm, other)
    variance = estimate_variance(differences)
    operators, seeds = differences.shape
    print(f"variance of {arm} - {other}: operators {variance.operators:.4f}, seeds {variance.seeds:.4f}, residual {variance.residual:.4f}")
    shown = 100 * detectable_difference(variance, operators, seeds)
    print(f"{operators} operators and {seeds} seeds show {shown:.1f} points at {POWER:.0%} power")
    for number in SEEDS:
        needed = count_operators_needed(variance, number, smallest)
        print(f"{100 * smallest:g} points with {number} seeds: {needed or 'no number of'} operators")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]) if len(sys.argv) > 4 else 0.08)
