"""The twin's cost model held against every public timing of a 910B that could be found, and against what the documentation promises.

    python benchmarks/ascendc_costs.py [--only add,copy] [--effects] [--run-s 4]

Kernels of our own, in `benchmarks/ascendc_costs/`, in the published configurations of `benchmarks/ascendc_costs.toml`. Each is built once
and run in a process of its own; of launches that take longer than `--run-s` only some blocks are run. With `--effects`, what single
decisions (tile, buffers, blocks, banks, alignment) change in the estimate.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
KERNELS, TABLE = HERE / "ascendc_costs", HERE / "ascendc_costs.toml"
PIPES = ("S", "V", "MTE2", "MTE3", "M")


class Row(NamedTuple):
    """One configuration of a kernel."""

    name: str
    kernel: str
    given: Mapping[str, int]
    """The kernel's attributes, in its order."""
    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    dtype: str
    chip: str
    us: float = 0.0
    """As published; 0 when only the estimate is wanted."""
    sample: str = "out"
    """`in` when a constant of the model was taken from it."""
    minus: str = ""
    """The row whose time is taken off: what only the two together tell."""
    note: str = ""
    over: str = ""
    """The row that an effect is told as a multiple of; else its group's first."""
    least: float = 0.0
    most: float = 0.0
    """What one may expect of that multiple."""


class Priced(NamedTuple):
    """What the twin says."""

    row: Row
    us: float
    busy: dict[str, float]
    """Share of the time a pipe worked."""
    ran: int
    blocks: int


def rows(which: str = "published") -> list[Row]:
    """Of the table; settings of its group hold for all of a group."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    found = []
    for group in table[which]:
        for one in group["row"]:
            given = group.get("given", {}) | one.get("given", {})
            both = {name: value for name, value in (group | one).items() if name in Row._fields}
            shapes = {"inputs": tuple(map(tuple, both["inputs"])), "output": tuple(both["output"]), "given": given}
            found.append(Row(**(both | shapes)))
    return found


def source_of(kernel: str) -> str:
    return (KERNELS / f"{kernel}.asc").read_text(encoding="utf-8")


def built(row: Row, workdir: Path) -> Path:
    """The kernel's folder, compiled once."""
    from evokernel.backends.ascendc.build import build
    from evokernel.backends.ascendc.project import Project, parts

    folder = workdir / row.kernel
    if (folder / "plan.json").exists():
        return folder
    folder.mkdir(parents=True)
    op = "KernelCustom"
    project = Project(
        op=op,
        entry="kernel_custom",
        parameters=len(row.inputs) + 3,
        files=parts(source_of(row.kernel)),
        kernel="op_kernel.cpp",
        hosts=("op_host.cpp",),
        header="tiling.h",
        tiling=f"optiling::{op}TilingData",
        dtypes={},
    )
    build(project, folder)
    (folder / "plan.json").write_text(json.dumps({"op": op, "function": "", "call": []}))
    return folder


def priced(wanted: Sequence[Row], workdir: Path, run_s: float = 4.0) -> Iterator[Priced]:
    """All rows of a kernel in one process, as a candidate would be run."""
    for kernel in dict.fromkeys(row.kernel for row in wanted):
        some = [row for row in wanted if row.kernel == kernel]
        passed = json.dumps([str(built(some[0], workdir)), [row._asdict() for row in some], run_s])
        done = subprocess.run([sys.executable, __file__, "--child"], input=passed, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{kernel}: {done.stderr.strip()[-800:]}")
        for row, line in zip(some, done.stdout.splitlines()):
            report = json.loads(line)
            busy = {pipe: report["busy"][pipe] / report["end"] for pipe in PIPES}
            yield Priced(row, report["us"], busy, report["ran"], report["blocks"])


def child(passed: str) -> None:
    """Runs every row once and prints the twin's reports. Tensors are zeros, which take no memory before they are written."""
    import numpy as np

    from evokernel.backends.ascendc.chips import chip
    from evokernel.backends.ascendc.loader import AscendcKernel, open_twin
    from evokernel.core.protocols import Arguments, Array

    folder, wanted, run_s = json.loads(passed)
    workdir = Path(folder)
    open_twin(workdir / "libtwin.so")
    for row in (Row(**fields) for fields in wanted):
        kernel = AscendcKernel(workdir, "libtwin.so", "operator.so", "strict", chip(row.chip).as_lines(), run_s)
        inputs = tuple(Array(f"x{i}", row.dtype, np.zeros(shape, row.dtype)) for i, shape in enumerate(row.inputs))
        scalars = tuple((name, "int", float(value)) for name, value in row.given.items())
        output = Array("out", row.dtype, np.zeros(row.output, row.dtype))
        kernel.bind(Arguments(inputs, scalars, (output,)))()
        print(kernel.twin.twin_report().decode(), flush=True)


def table(workdir: Path, run_s: float, only: Collection[str]) -> Iterator[str]:
    """Published timings next to the twin's."""
    yield "| configuration | published µs | twin µs | error | busy S/V/MTE2/MTE3/M | sample | blocks run |\n|---|---|---|---|---|---|---|"
    for kernel in dict.fromkeys(row.kernel for row in rows()):
        if not only or kernel in only:
            found = list(priced([row for row in rows() if row.kernel == kernel], workdir, run_s))
            yield from (line(one, found) for one in found if one.row.us)


def line(one: Priced, all_found: Sequence[Priced]) -> str:
    """Of the table."""
    us = estimate(one, all_found)
    busy = "/".join(f"{one.busy[pipe]:.2f}" for pipe in PIPES)
    error = f"{100 * (us / one.row.us - 1):+.0f} %"
    return f"| {one.row.name} | {one.row.us:.1f} | {us:.1f} | {error} | {busy} | {one.row.sample} | {one.ran} of {one.blocks} |"


def estimate(one: Priced, all_found: Sequence[Priced]) -> float:
    """What stands for the published time."""
    return one.us - sum(other.us for other in all_found if one.row.minus and other.row.name == one.row.minus)


class Effect(NamedTuple):
    """A row, and the multiple of another that it takes."""

    row: Row
    us: float
    times: float


def effects(workdir: Path, run_s: float = 4.0, only: Collection[str] = ()) -> Iterator[Effect]:
    """What one decision changes. Of banks, only the vector unit's time is told: the rest hides it."""
    known = [row for row in rows("effect") if not only or group(row) in only]
    took = {one.row.name: one.us * (one.busy["V"] if group(one.row) == "banks" else 1.0) for one in priced(known, workdir, run_s)}
    for row in known:
        first = next(other.name for other in known if group(other) == group(row))
        yield Effect(row, took[row.name], took[row.name] / took[row.over or first])


def group(row: Row) -> str:
    return row.name.split(":")[0]


def told(found: Iterable[Effect]) -> Iterator[str]:
    yield "| configuration | twin µs | times the first | expected |\n|---|---|---|---|"
    for one in found:
        expected = f"{one.row.least:g} to {one.row.most:g}" if one.row.most else ""
        yield f"| {one.row.name} | {one.us:.1f} | {one.times:.3g} | {expected} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="kernels (or groups of effects), with commas between them")
    parser.add_argument("--effects", action="store_true")
    parser.add_argument("--run-s", type=float, default=4.0)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(sys.stdin.read())
        return
    with tempfile.TemporaryDirectory() as folder:
        only = set(filter(None, given.only.split(",")))
        lines = told(effects(Path(folder), given.run_s, only)) if given.effects else table(Path(folder), given.run_s, only)
        for line in lines:
            print(line, flush=True)


if __name__ == "__main__":
    main()
