"""Fits the estimate of a verification's CPU seconds (`core/verification_time.py`) to the rows that full_sizes.py has measured.

    python benchmarks/fit_verification_time.py full-sizes/full_sizes.json …

For each backend it prints the figures of `VerificationTime`, and how far off the estimate is: the median and the 90th percentile of the
factor between estimate and measurement, each row estimated from all others.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from pathlib import Path

import numpy as np

from evokernel.core.records import Task
from evokernel.core.verification_time import list_features
from evokernel.suites.loader import describe_task, find_task_files


def read_rows(paths: list[Path]) -> dict[str, list[tuple[Task, float]]]:
    """Return the tasks of each backend that have a verified kernel, at size `full`, with the CPU seconds of the verification."""
    rows = defaultdict(list)
    for path in paths:
        for row in json.loads(path.read_text()):
            if row["is_feasible"]:
                file = next(file for file in find_task_files(row["task"]) if file.id == row["task"])
                rows[row["backend"]].append((describe_task(file, "full"), row["cpu_s"]))
    return rows


def fit(tasks: list[Task], seconds: list[float]) -> np.ndarray:
    """Return the coefficients of the logarithm of the seconds: a constant, and one for each feature."""
    features = np.array([[1.0, *list_features(task)] for task in tasks])
    return np.linalg.lstsq(features, np.log(seconds), rcond=None)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    for backend, rows in read_rows(parser.parse_args().files).items():
        tasks, seconds = [task for task, _ in rows], [time_s for _, time_s in rows]
        base, exponent, family, convolution = fit(tasks, seconds)
        factors = []
        for i, (task, time_s) in enumerate(rows):
            others = fit(tasks[:i] + tasks[i + 1 :], seconds[:i] + seconds[i + 1 :])
            factors.append(math.exp(abs(np.dot(others, [1.0, *list_features(task)]) - math.log(time_s))))
        print(f"{backend}: base_s={math.exp(base):.3g}, exponent={exponent:.2f}, family_factor={math.exp(family):.2f}", end="")
        print(f", convolution_factor={math.exp(convolution):.2f}, spread={np.quantile(factors, 0.9):.2f}")
        print(
            f"  {len(rows)} tasks, off by a factor of {np.median(factors):.2f} (median), {np.quantile(factors, 0.9):.2f} (90th percentile)"
        )


if __name__ == "__main__":
    main()
