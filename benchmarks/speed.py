"""Prints the speed of the best kernels of runs: relative to each baseline, and as a share of the roofline floor.

    python benchmarks/speed.py RUN... [--out FOLDER]

The figures come from the re-evaluation if there was one. Several runs, such as several seeds, are combined.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from study import run_main, write_tables

from evokernel.core.run import Run
from evokernel.reports import formatting, metrics
from evokernel.reports.metrics import TaskResult
from evokernel.reports.tables import Column, Table

FUSED = "fuse"
"""The category of tasks that consist of several operators."""


def speed_over(name: str) -> Callable[[TaskResult], float | None]:
    """Return a function that computes the speed of the best kernel relative to a baseline."""

    def compute_speed(result: TaskResult) -> float | None:
        base, own = (result.best_outcome.baseline_latency_us(name), result.best_outcome.latency_us) if result.best_outcome else (None, None)
        return base / own if base and own and result.best_outcome and name in result.best_outcome.baseline_us else None

    return compute_speed


def first_over_baseline(result: TaskResult) -> float | None:
    """Return the speed of the first correct kernel relative to the first baseline."""
    return result.first_correct.outcome.speedup if result.first_correct else None


def share_of_floor(result: TaskResult) -> float | None:
    """Return the roofline floor divided by the latency of the best kernel; above 1 if caches help."""
    own = result.best_outcome.latency_us if result.best_outcome else None
    return result.floor_us / own if result.floor_us and own else None


def group_by_kind(results: Sequence[TaskResult]) -> dict[str, list[TaskResult]]:
    """Group results: single operators, fused operators, all."""
    fused_flags = [metrics.task_category(result.task) == FUSED for result in results]
    parts = {
        "single": [result for result, is_fused in zip(results, fused_flags) if not is_fused],
        "fused": [result for result, is_fused in zip(results, fused_flags) if is_fused],
    }
    return {**{name: part for name, part in parts.items() if part}, "all": list(results)}


def baseline_names(results: Sequence[TaskResult]) -> list[str]:
    """Return the baselines that best kernels were compared with, the most frequent one first."""
    all_names = [name for result in results if result.best_outcome for name in result.best_outcome.baseline_us]
    return sorted(set(all_names), key=lambda name: (-all_names.count(name), all_names.index(name)))


def speed_rows(results: Sequence[TaskResult]) -> list[dict[str, Any]]:
    """Return one row for each kind of task."""
    rows = []
    for kind, part in group_by_kind(results).items():
        solved_results = [result for result in part if result.is_solved]
        row: dict[str, Any] = {"tasks": kind, "kernels": len(solved_results)}
        for name in baseline_names(results):
            ratios = [ratio for result in solved_results if (ratio := speed_over(name)(result)) is not None]
            row[name] = metrics.geometric_mean(ratios)
            row[f"faster than {name}"] = sum(ratio > 1 for ratio in ratios) / len(ratios) if ratios else None
            row[f"known {name}"] = len(ratios)
        shares = [share for result in solved_results if (share := share_of_floor(result)) is not None]
        row["floor"] = metrics.geometric_mean(shares)
        row["known floor"] = len(shares)
        rows.append(row)
    return rows


def speed_table(results: Sequence[TaskResult], title: str = "Speed of the best kernels") -> Table:
    """Return a table of geometric means and of the share of kernels that are faster than each baseline."""
    rows, names = speed_rows(results), baseline_names(results)
    columns = [Column("tasks"), Column("feasible", "count")]
    for name in names:
        columns += [Column(f"speed relative to {name}", "ratio"), Column(f"faster than {name}", "share")]
    cells = [[row["tasks"], row["kernels"], *(row[key] for name in names for key in (name, f"faster than {name}"))] for row in rows]
    short = [f"{name} for {rows[-1][f'known {name}']} of {rows[-1]['kernels']}" for name in names]
    clock = formatting.clock_label(clock_names(results))
    note = f"Geometric means over the feasible tasks; with a baseline: {', '.join(short)}. Times: {clock}."
    columns.append(
        Column("share of the floor", "share", explanation="the roofline floor divided by the latency of the best kernel, geometric mean")
    )
    return Table(title, tuple(columns), tuple((*row, row_values["floor"]) for row, row_values in zip(cells, rows)), note)


def clock_names(results: Sequence[TaskResult]) -> set[str]:
    """Return the names of the clocks of all times."""
    return metrics.clock_names(attempt for result in results for attempt in result.attempts)


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("runs", nargs="+", type=Path)
    options.add_argument("--out", type=Path, default=Path())
    args = options.parse_args()
    runs = [Run.open(folder) for folder in args.runs]
    results = [result for run in runs for result in metrics.collect_results(run, run.attempts())]
    write_tables(args.out, "speed", [speed_table(results)], {"speed": speed_rows(results)})


if __name__ == "__main__":
    raise SystemExit(run_main(main))
