"""Compares the simulator's cost model with every public timing of a 910B that we found, and with the documentation.

    python benchmarks/ascendc_costs.py [--only add,copy] [--effects] [--run-s 4]

Our own kernels in `benchmarks/ascendc_costs/` use the published configurations of `benchmarks/ascendc_costs.toml`. Each is built once and
runs in a separate process. The simulator runs only some blocks of launches that take longer than `--run-s`. With `--effects`, the script
prints how single decisions (tile, buffers, blocks, banks, alignment) change the estimate.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from evokernel.backends.ascendc.chips import Chip

HERE = Path(__file__).parent
KERNELS, TABLE = HERE / "ascendc_costs", HERE / "ascendc_costs.toml"
PIPES = ("S", "V", "MTE2", "MTE3", "M")


class Row(NamedTuple):
    """One configuration of a kernel."""

    name: str
    kernel: str
    attributes: Mapping[str, int]
    """The attributes of the kernel, in its order."""
    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    dtype: str
    chip: str
    us: float = 0.0
    """The published time; 0 if there is only an estimate."""
    sample: str = "out"
    """`in` if a constant of the model was taken from this row, else `out`."""
    minus: str = ""
    """The row whose time is subtracted, because only the difference was published."""
    note: str = ""
    cold: bool = False
    """Whether no input is in L2 at the start."""
    inside: bool = False
    """Whether the published time is of the cores, without the launch."""
    cube_only: bool = False
    """Whether no vector core takes part."""
    formula: bool = False
    """Whether the row is too long to run, so that only the formula of the product is evaluated."""
    relative_to: str = ""
    """The row that an effect is a multiple of; by default the first of its group."""
    min_ratio: float = 0.0
    max_ratio: float = 0.0
    """The expected range of that multiple."""


class RowEstimate(NamedTuple):
    """The simulator's estimate for a row."""

    row: Row
    us: float
    busy: dict[str, float]
    """Share of the time in which each pipe worked."""
    blocks_run: int
    blocks: int


def load_rows(section: str = "published") -> list[Row]:
    """Load the rows of a section of the table. The settings of a group apply to all its rows."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    rows = []
    for group in table[section]:
        for entry in group["row"]:
            attributes = group.get("attributes", {}) | entry.get("attributes", {})
            fields = {name: value for name, value in (group | entry).items() if name in Row._fields}
            shapes = {"inputs": tuple(map(tuple, fields["inputs"])), "output": tuple(fields["output"]), "attributes": attributes}
            rows.append(Row(**(fields | shapes)))
    return rows


def read_source(kernel: str) -> str:
    return (KERNELS / f"{kernel}.asc").read_text(encoding="utf-8")


def build_kernel(row: Row, workdir: Path) -> Path:
    """Return the folder of the row's kernel, which is compiled once."""
    from evokernel.backends.ascendc.build import build
    from evokernel.backends.ascendc.project import Project
    from evokernel.backends.ascendc.project_parser import split_parts

    folder = workdir / row.kernel
    if (folder / "plan.json").exists():
        return folder
    folder.mkdir(parents=True)
    op = "KernelCustom"
    project = Project(
        op=op,
        entry="kernel_custom",
        parameter_count=len(row.inputs) + 3,
        files=split_parts(read_source(row.kernel)),
        kernel_file="op_kernel.cpp",
        host_files=("op_host.cpp",),
        tiling_header="tiling.h",
        tiling_struct=f"optiling::{op}TilingData",
        dtypes={},
    )
    build(project, folder)
    (folder / "plan.json").write_text(json.dumps({"op": op, "function": "", "call": []}))
    return folder


def estimate_rows(rows: Sequence[Row], workdir: Path, run_s: float = 4.0) -> Iterator[RowEstimate]:
    """Estimate all rows of a kernel in one process, which runs it like a candidate."""
    for row in rows:
        if row.formula:
            yield evaluate_formula(row)
    for kernel in dict.fromkeys(row.kernel for row in rows):
        kernel_rows = [row for row in rows if row.kernel == kernel and not row.formula]
        if not kernel_rows:
            continue
        request = json.dumps([str(build_kernel(kernel_rows[0], workdir)), [row._asdict() for row in kernel_rows], run_s])
        result = subprocess.run([sys.executable, __file__, "--child"], input=request, capture_output=True, text=True, check=False)
        if result.returncode:
            raise SystemExit(f"{kernel}: {result.stderr.strip()[-800:]}")
        for row, line in zip(kernel_rows, result.stdout.splitlines()):
            report = json.loads(line)
            busy = {pipe: report["busy"][pipe] / report["end"] for pipe in PIPES}
            yield RowEstimate(row, report["us"], busy, report["blocks_run"], report["blocks"])


def chip_of(row: Row) -> Chip:
    """The chip under the conditions of the row."""
    from evokernel.backends.ascendc.chips import find_chip

    chip = find_chip(row.chip)
    return replace(
        chip,
        cold_l2=float(row.cold),
        cube_start=0.0 if row.cube_only else chip.cube_start,
        launch_us=0.0 if row.inside else chip.launch_us,
    )


def evaluate_formula(row: Row) -> RowEstimate:
    """Estimate a product by its busiest core."""
    from evokernel.backends.ascendc.product_cost import Factor, Product, estimate_product, memory_rates

    chip, given = chip_of(row), row.attributes
    rows, columns, depth = given["singleM"], given["singleN"], given["k"]
    base, steps = (given["baseM"], given["baseN"], given["baseK"]), (given["stepA"] or 1, given["stepB"] or 1)
    lefts = Factor(2, min(depth, base[2] * steps[0]), True, max(1, min(given["blocks"], round(given["n"] / columns))))
    right_row = min(depth, base[2] * steps[1]) if given["turned"] else min(columns, base[1])
    rights = Factor(2, right_row, True, max(1, min(given["blocks"], round(given["m"] / rows))))
    product = Product(rows, columns, depth, lefts, rights, 2, chip.cube_macs_half, base, steps, given["depth"] == 1)
    footprint = 2.0 * (given["m"] * depth + given["n"] * depth + given["m"] * given["n"])
    cycles = estimate_product(product, memory_rates(chip, footprint, given["blocks"]), chip)
    all_cycles = chip.matmul_start + cycles.total + chip.cube_start * given["blocks"]
    busy = dict.fromkeys(PIPES, 0.0) | {"M": cycles.mac / all_cycles, "MTE2": cycles.into_l1 / all_cycles}
    return RowEstimate(row, chip.launch_us + chip.cycles_to_us(all_cycles), busy, 0, given["blocks"])


def run_child(request: str) -> None:
    """Run every row once and print the simulator's reports. Tensors are zeros, which use no memory before they are written."""
    import numpy as np

    from evokernel.backends.ascendc.loader import AscendcKernel, preload_simulator
    from evokernel.core.backend import Arguments, Array

    folder, row_fields, run_s = json.loads(request)
    workdir = Path(folder)
    preload_simulator(workdir / "libsimulator.so")
    for row in (Row(**fields) for fields in row_fields):
        kernel = AscendcKernel(workdir, "libsimulator.so", "operator.so", "strict", chip_of(row).runtime_config_text(), run_s)
        inputs = tuple(Array(f"x{i}", row.dtype, np.zeros(shape, row.dtype)) for i, shape in enumerate(row.inputs))
        scalars = tuple((name, "int", float(value)) for name, value in row.attributes.items())
        output = Array("out", row.dtype, np.zeros(row.output, row.dtype))
        kernel.bind(Arguments(inputs, scalars, (output,)))()
        print(kernel.simulator.simulator_report().decode(), flush=True)


def published_lines(workdir: Path, run_s: float, only: Collection[str]) -> Iterator[str]:
    """Yield the lines of the table of published timings and estimates."""
    yield "| configuration | published, µs | simulator, µs | error | busy S/V/MTE2/MTE3/M | sample | blocks run |"
    yield "|---|---|---|---|---|---|---|"
    for kernel in dict.fromkeys(row.kernel for row in load_rows()):
        if not only or kernel in only:
            estimates = list(estimate_rows([row for row in load_rows() if row.kernel == kernel], workdir, run_s))
            yield from (format_line(estimate, estimates) for estimate in estimates if estimate.row.us)


def format_line(estimate: RowEstimate, estimates: Sequence[RowEstimate]) -> str:
    """Format a line of the table."""
    row, us = estimate.row, comparable_us(estimate, estimates)
    busy = "/".join(f"{estimate.busy[pipe]:.2f}" for pipe in PIPES)
    error = f"{100 * (us / row.us - 1):+.0f} %"
    return f"| {row.name} | {row.us:.1f} | {us:.1f} | {error} | {busy} | {row.sample} | {estimate.blocks_run} of {estimate.blocks} |"


def comparable_us(estimate: RowEstimate, estimates: Sequence[RowEstimate]) -> float:
    """Return the estimate that corresponds to the published time."""
    minus = estimate.row.minus
    return estimate.us - sum(other.us for other in estimates if minus and other.row.name == minus)


class Effect(NamedTuple):
    """The time of a row, and its ratio to the time of another row."""

    row: Row
    us: float
    ratio: float


def measure_effects(workdir: Path, run_s: float = 4.0, only: Collection[str] = ()) -> Iterator[Effect]:
    """Yield the effects of single decisions. For banks, only the time of the vector unit counts, because other work hides it."""
    rows = [row for row in load_rows("effect") if not only or group_name(row) in only]
    estimates = estimate_rows(rows, workdir, run_s)
    times_us = {one.row.name: one.us * (one.busy["V"] if group_name(one.row) == "banks" else 1.0) for one in estimates}
    for row in rows:
        first = next(other.name for other in rows if group_name(other) == group_name(row))
        yield Effect(row, times_us[row.name], times_us[row.name] / times_us[row.relative_to or first])


def group_name(row: Row) -> str:
    """Return the group of a row, which its name begins with."""
    return row.name.split(":")[0]


def effect_lines(effects: Iterable[Effect]) -> Iterator[str]:
    """Yield the lines of the table of effects."""
    yield "| configuration | simulator, µs | ratio to the first | expected |\n|---|---|---|---|"
    for effect in effects:
        expected_range = f"{effect.row.min_ratio:g} to {effect.row.max_ratio:g}" if effect.row.max_ratio else ""
        yield f"| {effect.row.name} | {effect.us:.1f} | {effect.ratio:.3g} | {expected_range} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="kernels (or groups of effects), separated by commas")
    parser.add_argument("--effects", action="store_true")
    parser.add_argument("--run-s", type=float, default=4.0)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        run_child(sys.stdin.read())
        return
    with tempfile.TemporaryDirectory() as folder:
        only = set(filter(None, args.only.split(",")))
        lines = (
            effect_lines(measure_effects(Path(folder), args.run_s, only))
            if args.effects
            else published_lines(Path(folder), args.run_s, only)
        )
        for line in lines:
            print(line, flush=True)


if __name__ == "__main__":
    main()
