"""Compares the estimated time of PyTorch on a 910B with the former estimate and with simulated kernels.

    python benchmarks/ascendc_baseline.py [--suites starter,level2] [--chip 910B2] [--drafts 0]

The former estimate took products at 90 % of the cube's peak at any size and charged no start of Matmul. With `--drafts N`, the first of
N drafts of `template_search` that passes on the simulator is shown: a straightforward kernel that was not tuned, usually with all
operators in one launch. No reference runs for the first two columns.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from math import ceil
from statistics import median
from typing import NamedTuple

from evokernel.backends.ascendc.baseline import BaselineEstimate, estimate_baseline, list_kernels, load_cost_table, trace_at_bench
from evokernel.backends.ascendc.chips import REPEAT_BYTES, Chip, find_chip
from evokernel.backends.ascendc.kernel_cost import KernelWork, macs_per_cycle
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Context, Job, Stage, Task
from evokernel.core.state import State
from evokernel.executors.local import LocalExecutor
from evokernel.reference.program_cache import load_task_program
from evokernel.tasks.loader import load_tasks

FORMER_CUBE_EFFICIENCY, BLOCK_SIDE = 0.9, 16


class Row(NamedTuple):
    """The estimates of one task, in microseconds."""

    task: str
    former_us: float
    estimate: BaselineEstimate
    simulated_us: float | None


def former_us(task: Task, chip: Chip) -> float:
    """The estimate before products and tiles were priced by the formulas of the simulator."""
    program = load_task_program(task)
    works, _ = list_kernels(trace_at_bench(task.source, task.id) if program.unsupported_reason else program, chip)
    return sum(former_kernel_us(work, chip) for work in works)


def former_kernel_us(work: KernelWork, chip: Chip) -> float:
    """The launch, two latencies, and the longest part at its full rate."""
    moved, vector = work.read_bytes + work.written_bytes, work.vector
    start = chip.vector_start * REPEAT_BYTES / load_cost_table().tile_bytes
    instructions = vector.instructions - vector.reductions
    vector_cycles = ceil(vector.tensor_bytes / REPEAT_BYTES) * (vector.cycles_per_repeat + start * instructions) / chip.aiv_cores
    macs = sum(
        one.repeats * one.batch * round_up(one.rows) * round_up(one.columns) * round_up(one.depth) / macs_per_cycle(one.dtype, chip)
        for one in work.products
    )
    longest = max(moved / chip.bandwidth_for_footprint(moved), vector_cycles, macs / (chip.aic_cores * FORMER_CUBE_EFFICIENCY))
    return chip.launch_us + chip.cycles_to_us((2 if work.read_bytes else 1) * chip.estimate_copy_cycles(0) + longest)


def round_up(extent: int) -> int:
    return ceil(extent / BLOCK_SIDE) * BLOCK_SIDE


def simulate_drafts(task: Task, drafts: int, executor: LocalExecutor) -> float | None:
    """The simulated time of the first of some drafts of `template_search` that passes; None if none does."""
    for number in range(drafts):
        generator = make_plugin("generator", "template_search", backend="ascendc", seed=number)
        candidate = generator.write(State(task=task), Context(stage=Stage.DRAFT)).candidate
        if not candidate.files:
            return None
        outcome = executor.submit(Job(backend="ascendc", task=task, candidate=candidate, seed=number)).result()
        if outcome.feasible and outcome.latency_us:
            return outcome.latency_us
    return None


def compare_tasks(suites: str, chip: Chip, drafts: int) -> Iterator[Row]:
    """Yield a row for each task of the suites."""
    executor = LocalExecutor(workers=1) if drafts else None
    for suite in suites.split(","):
        for task in load_tasks(suite):
            estimate = estimate_baseline(task, chip)
            if estimate.us is not None:
                yield Row(task.id, former_us(task, chip), estimate, simulate_drafts(task, drafts, executor) if executor else None)
    if executor:
        executor.close()


def format_row(row: Row) -> str:
    """A line of the table."""
    assert row.estimate.us is not None
    simulated = f"{row.simulated_us:.1f} | {row.estimate.us / row.simulated_us:.2f}" if row.simulated_us else "not run | "
    estimated = f"{row.former_us:.1f} | {row.estimate.us:.1f} | {row.estimate.us / row.former_us:.2f} | {row.estimate.outside_us:.1f}"
    return f"| {row.task} | {len(row.estimate.kernels)} | {estimated} | {simulated} |"


def summary_lines(rows: list[Row]) -> Iterator[str]:
    """How far the columns are apart."""
    for suite in dict.fromkeys(row.task.partition("/")[0] for row in rows):
        chosen = [row for row in rows if row.task.startswith(f"{suite}/")]
        ratios = {
            "former": [(row.estimate.us or 0.0) / row.former_us for row in chosen],
            "simulated": [(row.estimate.us or 0.0) / row.simulated_us for row in chosen if row.simulated_us],
        }
        for name, found in ratios.items():
            if found:
                yield f"{suite}: new / {name}: median {median(found):.2f}, from {min(found):.2f} to {max(found):.2f} ({len(found)} tasks)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", default="starter,level2")
    parser.add_argument("--chip", default="910B2")
    parser.add_argument("--drafts", type=int, default=0)
    args = parser.parse_args()
    print("| task | kernels | former, µs | new, µs | new / former | outside the cores, µs | simulated draft, µs | new / simulated |")
    print("|---|---|---|---|---|---|---|---|")
    rows = []
    for row in compare_tasks(args.suites, find_chip(args.chip), args.drafts):
        rows.append(row)
        print(format_row(row), flush=True)
    print("\n".join(["", *summary_lines(rows)]))


if __name__ == "__main__":
    main()
