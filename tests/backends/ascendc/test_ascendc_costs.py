"""The cost model: close to published timings and in their order; each decision counts as documentation says. No clock is read."""

from __future__ import annotations

import importlib.util
import sys
from itertools import combinations
from pathlib import Path
from types import ModuleType

import pytest
from sampling import one_in

from evokernel.backends.ascendc.chips import chip
from evokernel.backends.native.toolchain import missing

BENCH = Path(__file__).parents[3] / "benchmarks" / "ascendc_costs.py"
CLOSE, APART, SAME, QUICK_S = 0.2, 1.1, 0.02, 0.3
"""Error that is let pass; published times that are told apart; estimates that are not; seconds after which blocks are left out."""
ROWS = ("add 2", "add 5", "copy 1", "copy 4")
INSTRUCTIONS = (
    "adds", "muls", "relu", "lrelu", "abs", "rec", "exp", "ln", "sqrt", "rsqrt", "maxs", "mins", "dup", "add", "sub", "mul", "max", "min",
    "div", "axpy", "conv", "cmp", "cmpvs", "sel", "madd", "cadd", "cmax", "cgadd", "cpadd", "or", "and", "not", "shl", "shr",
)  # fmt: skip
"""In the order of instructions.asc."""
LEFT_OUT = {"copy", "mulconv", "gathermask", "mla", "cmin", "gather"}
pytestmark = pytest.mark.skipif(bool(missing("")), reason="no C++ compiler")


def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ascendc_costs", BENCH)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


costs = bench()


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("costs")


def test_estimates_are_close_to_published_times_and_in_their_order(workdir: Path) -> None:
    wanted = [row for row in costs.rows() if row.name.startswith(ROWS)]
    assert len(wanted) == len(ROWS)
    found = {one.row.name: one.us for one in costs.priced(wanted, workdir, QUICK_S)}
    errors = {row.name: round(found[row.name] / row.us - 1, 2) for row in wanted}
    assert not {name: error for name, error in errors.items() if abs(error) > CLOSE}
    for one, other in combinations(wanted, 2):
        if one.kernel == other.kernel and max(one.us, other.us) > APART * min(one.us, other.us):
            estimated = found[one.name] / found[other.name]
            assert estimated == pytest.approx(1, abs=SAME) or (one.us < other.us) == (estimated < 1), (one.name, other.name)


GROUPS = ("scalar", "buffers", "tile", "blocks", "bandwidth", "past L2", "banks", "alignment", "softmax", "sum")


@pytest.mark.parametrize("group", one_in(3, GROUPS))
def test_one_decision_changes_what_documentation_says(workdir: Path, group: str) -> None:
    found = list(costs.effects(workdir, QUICK_S, [group]))
    assert len(found) > 1
    assert not [(one.row.name, one.times) for one in found if one.row.most and not one.row.least <= one.times <= one.row.most]


def test_smaller_tiles_take_longer(workdir: Path) -> None:
    times = [one.times for one in costs.effects(workdir, QUICK_S, ["tile"])]
    assert times == sorted(times)


def test_groups_of_effects_are_all_tried() -> None:
    assert {costs.group(row) for row in costs.rows("effect")} == set(GROUPS)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float16", marks=pytest.mark.slow)])
def test_vector_instructions_cost_what_the_table_says(workdir: Path, dtype: str) -> None:
    assert {*INSTRUCTIONS, *LEFT_OUT} == set(chip("910B1").vector)
    given = {"blocks": 1, "which": 0, "repeats": 0, "isHalf": int(dtype == "float16")}
    wanted = [
        costs.Row(f"{name} {repeats}", "instructions", given | {"which": at, "repeats": repeats}, ((8,),), (8,), "float32", "910B1")
        for at, name in enumerate(INSTRUCTIONS)
        for repeats in (16, 48)
    ]
    took = {one.row.name: one.us for one in costs.priced(wanted, workdir, QUICK_S)}
    cycles = {name: (took[f"{name} 48"] - took[f"{name} 16"]) * chip("910B1").ghz * 1e3 / 32 for name in INSTRUCTIONS}
    told = {name: chip("910B1").instruction(name, dtype) for name in INSTRUCTIONS}
    assert {name: round(value, 3) for name, value in cycles.items()} == told
