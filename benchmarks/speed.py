"""Speed of the kernels that runs found: against each baseline, and as a share of the roofline floor.

    python benchmarks/speed.py RUN... [--out FOLDER]

Figures are those of the second judgement where there was one. Several runs, as of several seeds, are taken together.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from study import ended, write

from evokernel.core.run import Run
from evokernel.reports import formatting, metrics
from evokernel.reports.metrics import Tried
from evokernel.reports.tables import Column, Table

FUSED = "fuse"
"""The category of tasks that hold several operators."""


def over(name: str) -> Callable[[Tried], float | None]:
    """How many times as fast as a baseline the best kernel is."""

    def figure(tried: Tried) -> float | None:
        base, own = (tried.outcome.baseline_latency_us(name), tried.outcome.latency_us) if tried.outcome else (None, None)
        return base / own if base and own and tried.outcome and name in tried.outcome.baseline_us else None

    return figure


def first_over_baseline(tried: Tried) -> float | None:
    """How many times as fast as the first baseline the first correct kernel is."""
    return tried.first.outcome.speedup if tried.first else None


def share_of_floor(tried: Tried) -> float | None:
    """How near the best kernel comes to what the task's bytes and operations take at the device's ceilings; above 1 where caches help."""
    own = tried.outcome.latency_us if tried.outcome else None
    return tried.floor_us / own if tried.floor_us and own else None


def kinds(found: Sequence[Tried]) -> dict[str, list[Tried]]:
    """Single operators, fused ones, all."""
    is_fused = [metrics.category(tried.task) == FUSED for tried in found]
    parts = {
        "single": [tried for tried, fused in zip(found, is_fused) if not fused],
        "fused": [tried for tried, fused in zip(found, is_fused) if fused],
    }
    return {**{name: part for name, part in parts.items() if part}, "all": list(found)}


def names(found: Sequence[Tried]) -> list[str]:
    """The baselines some best kernel was held against, the usual one first."""
    seen = [name for tried in found if tried.outcome for name in tried.outcome.baseline_us]
    return sorted(set(seen), key=lambda name: (-seen.count(name), seen.index(name)))


def speeds(found: Sequence[Tried]) -> list[dict[str, Any]]:
    """A row for each kind of task."""
    rows = []
    for kind, part in kinds(found).items():
        solved = [tried for tried in part if tried.solved]
        row: dict[str, Any] = {"tasks": kind, "kernels": len(solved)}
        for name in names(found):
            ratios = [ratio for tried in solved if (ratio := over(name)(tried)) is not None]
            row[name] = metrics.geomean(ratios)
            row[f"faster than {name}"] = sum(ratio > 1 for ratio in ratios) / len(ratios) if ratios else None
            row[f"known {name}"] = len(ratios)
        shares = [share for tried in solved if (share := share_of_floor(tried)) is not None]
        row["floor"] = metrics.geomean(shares)
        row["known floor"] = len(shares)
        rows.append(row)
    return rows


def table(found: Sequence[Tried], title: str = "Speed of the best kernels") -> Table:
    """Geometric means, and how many beat the baseline."""
    rows, given = speeds(found), names(found)
    columns = [Column("tasks"), Column("feasible", "count")]
    for name in given:
        columns += [Column(f"over {name}", "ratio"), Column(f"faster than {name}", "share")]
    cells = [[row["tasks"], row["kernels"], *(row[key] for name in given for key in (name, f"faster than {name}"))] for row in rows]
    short = [f"{name} for {rows[-1][f'known {name}']} of {rows[-1]['kernels']}" for name in given]
    note = f"Geometric means over the feasible; known: {', '.join(short)}. Times: {formatting.clock_label(clocks(found))}."
    columns.append(Column("of the floor", "share", means="the roofline floor over the best kernel's time, geometric mean"))
    return Table(title, tuple(columns), tuple((*row, made["floor"]) for row, made in zip(cells, rows)), note)


def clocks(found: Sequence[Tried]) -> set[str]:
    """Which clocks took the times."""
    return metrics.clocks(attempt for tried in found for attempt in tried.attempts)


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("runs", nargs="+", type=Path)
    options.add_argument("--out", type=Path, default=Path())
    given = options.parse_args()
    runs = [Run.open(folder) for folder in given.runs]
    found = [tried for run in runs for tried in metrics.of_run(run, run.attempts())]
    write(given.out, "speed", [table(found)], {"speed": speeds(found)})


if __name__ == "__main__":
    raise SystemExit(ended(main))
