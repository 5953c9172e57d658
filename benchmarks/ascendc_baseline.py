"""Compares the estimated time of PyTorch on a 910B with the former estimate and with simulated kernels.

    python benchmarks/ascendc_baseline.py [--suites starter,level2] [--chip 910B2] [--drafts 0] [--kernels]

The former estimate took products at 90 % of the cube's peak at any size, and charged no start of Matmul and no tiles. With `--drafts N`,
the first of N drafts of `template_search` that passes on the simulator is shown: a straightforward kernel that was not tuned, usually with
all operators in one launch. No reference runs for the first two columns. With `--kernels`, the formulas are compared with simulated kernels
of one operator each: those of `benchmarks/ascendc_costs/`, with two buffers and on all cores.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from statistics import median
from typing import NamedTuple

import ascendc_costs

from evokernel.backends.ascendc.baseline import (
    BaselineEstimate,
    estimate_baseline,
    kernel_of_tiles,
    list_kernels,
    load_cost_table,
    tensor_value,
    trace_at_bench,
    vector_work,
)
from evokernel.backends.ascendc.chips import REPEAT_BYTES, Chip, find_chip
from evokernel.backends.ascendc.kernel_cost import KernelWork, VectorWork, estimate_kernel, macs_per_cycle
from evokernel.backends.ascendc.matmul_cost import CubeWork
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Context, Job, Stage, Task
from evokernel.core.state import State
from evokernel.executors.local import LocalExecutor
from evokernel.reference.program import Step
from evokernel.reference.program_cache import load_task_program
from evokernel.suites.loader import load_tasks

FORMER_CUBE_EFFICIENCY, BLOCK_SIDE = 0.9, 16
TILED_ROWS = (
    ("softmax", 0, 512, 1024, 4), ("softmax", 0, 1536, 2048, 4), ("softmax", 0, 49152, 64, 128),
    ("layer_norm", 1, 1024, 768, 11), ("layer_norm", 1, 12288, 512, 16),
    ("sum", 2, 2048, 1536, 6), ("sum", 2, 12288, 512, 16), ("sum", 3, 12288, 512, 16), ("sum", 3, 98304, 64, 128),
    ("cumsum", 0, 512, 1024, 6), ("cumsum", 0, 8192, 1024, 6),
)  # fmt: skip
"""Operators on rows: the form of the kernel, rows, columns, and the rows of a tile."""
POOLS = ((2, 2, 2, 256, 8192, 16), (3, 3, 2, 256, 8193, 16), (3, 3, 1, 256, 4098, 16))
"""Lines and columns of a window, its stride, columns and lines of the image, and the lines of the result in a tile."""


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
    vector_cycles = ceil(vector.tensor_bytes / REPEAT_BYTES) * (vector.cycles_per_repeat + start * vector.instructions) / chip.aiv_cores
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


def list_kernel_rows(chip: Chip) -> Iterator[tuple[ascendc_costs.Row, KernelWork]]:
    """Yield simulated kernels, and the same work for the formulas."""

    def row(
        name: str, kernel: str, shapes: tuple[tuple[int, ...], ...], out: tuple[int, ...], dtype: str, **attributes: int
    ) -> ascendc_costs.Row:
        return ascendc_costs.Row(name, kernel, attributes, shapes, out, dtype, chip.name, cube_only=True)

    for n in (2**14, 2**18, 2**22, 2**26):
        given = {"blocks": 48, "tile": 8192, "buffers": 2, "scalar": 0, "bypass": 0, "pad": 0, "skew": 0}
        add = vector_work("add", n, "float16", chip)._replace(cycles_per_repeat=2.0)  # both sources are in the same banks there
        yield row(f"add, {n} halves", "add", ((n,), (n,)), (n,), "float16", **given), KernelWork("add", 4.0 * n, 2.0 * n, add)
    for n, steps in ((2**16, 8), (2**22, 1), (2**22, 8), (2**22, 40)):
        work = KernelWork("chain", 4.0 * n, 4.0 * n, VectorWork(4.0 * n, float(steps), steps))
        yield (
            row(
                f"{steps} instructions, {n} floats",
                "chain",
                ((n,),),
                (n,),
                "float32",
                blocks=48,
                tile=4096,
                buffers=2,
                steps=steps,
                scalar=0,
            ),
            work,
        )
    for op, form, rows, columns, together in TILED_ROWS:
        x, is_sum = tensor_value((rows, columns), "float32"), op == "sum"
        out = tensor_value((rows, 1) if is_sum else x.shape, "float32")
        settings = (columns,) if op == "layer_norm" else -1
        work = kernel_of_tiles(Step(name="v", op=op, args=("", settings), shapes=(), dtypes=()), op, [x], [out], x.stored_bytes, chip)
        kernel, given = ("scan", {}) if op == "cumsum" else ("tiles", {"form": form})
        given = {"blocks": 48, "columns": columns, "rows": together, **given}
        name = f"{op}{(' (library)', ' (instructions)')[form - 2] if is_sum else ''}, {rows} rows of {columns} floats, {together} at a time"
        yield row(name, kernel, (x.shape,), out.shape, "float32", **given), work
    for lines, window, stride, width, height, together in POOLS:
        shape = ((height - lines) // stride + 1, (width - window) // stride + 1)
        step = Step(name="v", op="max_pool2d", args=("", (lines, window), (stride, stride)), shapes=(), dtypes=())
        x, out = tensor_value((height, width), "float32"), tensor_value(shape, "float32")
        work = kernel_of_tiles(step, "max_pool2d", [x], [out], x.stored_bytes, chip)
        given = {"blocks": 48, "width": width, "rows": together, "lines": lines, "window": window, "stride": stride}
        yield (
            row(
                f"max_pool2d {lines} x {window}, stride {stride}, {height} x {width} floats", "pool", (x.shape,), shape, "float32", **given
            ),
            work,
        )
    for m, n, k, single_m, single_n in ((128, 30720, 64, 128, 1280), (1024, 1536, 1024, 256, 256), (2048, 3072, 512, 512, 512)):
        size = 2.0 * (m * k + n * k), 2.0 * m * n
        given = {"m": m, "n": n, "k": k, "singleM": single_m, "singleN": single_n, "baseM": 128, "baseN": 256, "baseK": 64, "bulk": 1}
        given |= {"turned": 0, "stepA": 0, "stepB": 0, "depth": 0, "pair": 0}
        work = KernelWork("matmul", *size, products=(CubeWork(1, m, n, k, "float16"),))
        yield row(f"matmul {m} x {n} x {k}, halves", "matmul", ((m, k), (k, n)), (m, n), "float16", blocks=24, **given), work


def kernel_lines(chip: Chip) -> Iterator[str]:
    """The table of single kernels."""
    pairs = list(list_kernel_rows(chip))
    yield "| kernel | simulated, µs | formula, µs | formula / simulated |\n|---|---|---|---|"
    with tempfile.TemporaryDirectory() as folder:
        found = {one.row.name: one.us for one in ascendc_costs.estimate_rows([row for row, _ in pairs], Path(folder), 1.0)}
    for row, work in pairs:
        us = estimate_kernel(work, chip).us
        yield f"| {row.name} | {found[row.name]:.1f} | {us:.1f} | {us / found[row.name]:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", default="starter,level2")
    parser.add_argument("--chip", default="910B2")
    parser.add_argument("--drafts", type=int, default=0)
    parser.add_argument("--kernels", action="store_true")
    args = parser.parse_args()
    if args.kernels:
        for line in kernel_lines(find_chip(args.chip)):
            print(line, flush=True)
        return
    print("| task | kernels | former, µs | new, µs | new / former | outside the cores, µs | simulated draft, µs | new / simulated |")
    print("|---|---|---|---|---|---|---|---|")
    rows = []
    for row in compare_tasks(args.suites, find_chip(args.chip), args.drafts):
        rows.append(row)
        print(format_row(row), flush=True)
    print("\n".join(["", *summary_lines(rows)]))


if __name__ == "__main__":
    main()
