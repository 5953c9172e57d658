"""The cost model is close to published timings and in their order, and single decisions have their documented effect. No clock is read."""

from __future__ import annotations

import importlib.util
import sys
from itertools import combinations
from pathlib import Path
from types import ModuleType

import pytest
from sampling import one_in

from evokernel.backends.ascendc.chips import find_chip
from evokernel.backends.native.toolchain import missing_compiler_message

BENCH = Path(__file__).parents[3] / "benchmarks" / "ascendc_costs.py"
CLOSE, APART, SAME, QUICK_S = 0.25, 1.1, 0.02, 0.3
"""Allowed error; ratio at which published times differ; ratio at which estimates are equal; seconds after which blocks are sampled."""
ROWS = ("add 2", "add 5", "copy 1", "copy 4", "copy 7", "copy 8", "reduce: ", "matmul 128 x 30720 x 64", "matmul 64")
"""The published rows that run quickly, and all that are evaluated by their formula; `benchmarks/ascendc_costs.py` has all others."""
INSTRUCTIONS = (
    "adds", "muls", "relu", "lrelu", "abs", "rec", "exp", "ln", "sqrt", "rsqrt", "maxs", "mins", "dup", "add", "sub", "mul", "max", "min",
    "div", "axpy", "conv", "cmp", "cmpvs", "sel", "madd", "cadd", "cmax", "cgadd", "cpadd", "or", "and", "not", "shl", "shr",
)  # fmt: skip
"""Instructions in the order of instructions.asc."""
LEFT_OUT = {"copy", "mulconv", "gathermask", "mla", "cmin", "gather"}
pytestmark = pytest.mark.skipif(bool(missing_compiler_message("")), reason="no C++ compiler")


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


@pytest.mark.slow(one_in=5)
def test_estimates_are_close_to_published_times_and_in_their_order(workdir: Path) -> None:
    wanted = [row for row in costs.load_rows() if row.name.startswith(ROWS) or row.formula]
    estimates = list(costs.estimate_rows(wanted, workdir, QUICK_S))
    found = {one.row.name: costs.comparable_us(one, estimates) for one in estimates}
    published = [row for row in wanted if row.us]
    assert {row.sample for row in published} == {"in", "out"}
    errors = {row.name: round(found[row.name] / row.us - 1, 2) for row in published}
    assert not {name: error for name, error in errors.items() if abs(error) > CLOSE}
    for one, other in combinations(published, 2):
        if one.kernel == other.kernel and max(one.us, other.us) > APART * min(one.us, other.us):
            estimated = found[one.name] / found[other.name]
            assert estimated == pytest.approx(1, abs=SAME) or (one.us < other.us) == (estimated < 1), (one.name, other.name)


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("start", ["matmul 128 x 30720 x 64, MDL", "matmul 64"])
def test_formula_of_products_is_that_of_the_simulator(workdir: Path, start: str) -> None:
    (row,) = [
        row._replace(attributes=row.attributes | {"pair": 0, "m": row.attributes["singleM"]})
        for row in costs.load_rows()
        if row.name.startswith(start)
    ]
    row = row._replace(
        inputs=((row.attributes["m"], row.attributes["k"]), row.inputs[1]), output=(row.attributes["m"], row.attributes["n"])
    )
    for cold, bulk, depth in ((False, 0, 1), (False, 1, 0), (True, 0, 0), (True, 1, 0)):
        given = row._replace(cold=cold, attributes=row.attributes | {"bulk": bulk, "depth": depth})
        steps = {"stepA": 1, "stepB": 1} if not bulk else {}
        (ran,) = costs.estimate_rows([given], workdir, QUICK_S)
        evaluated = costs.evaluate_formula(given._replace(attributes=given.attributes | steps))
        chip = costs.chip_of(given)
        reads_the_tiling = chip.cycles_to_us(chip.scalar_gm_miss + chip.issue)
        assert ran.us == pytest.approx(evaluated.us + reads_the_tiling)


GROUPS = ("scalar", "buffers", "tile", "blocks", "bandwidth", "L2 bypass", "banks", "alignment", "strips", "softmax", "sum")


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("group", one_in(5, GROUPS))
def test_one_decision_has_its_documented_effect(workdir: Path, group: str) -> None:
    found = list(costs.measure_effects(workdir, QUICK_S, [group]))
    assert len(found) > 1
    assert not [(one.row.name, one.ratio) for one in found if one.row.max_ratio and not one.row.min_ratio <= one.ratio <= one.row.max_ratio]


def test_smaller_tiles_take_longer(workdir: Path) -> None:
    times = [one.ratio for one in costs.measure_effects(workdir, QUICK_S, ["tile"])]
    assert times == sorted(times)


def test_all_effect_groups_are_covered() -> None:
    assert {costs.group_name(row) for row in costs.load_rows("effect")} == set(GROUPS)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float16", marks=pytest.mark.slow)])
def test_vector_instructions_cost_the_cycles_of_the_table(workdir: Path, dtype: str) -> None:
    assert {*INSTRUCTIONS, *LEFT_OUT} == set(find_chip("910B1").vector)
    given = {"blocks": 1, "which": 0, "repeats": 0, "isHalf": int(dtype == "float16")}
    wanted = [
        costs.Row(f"{name} {repeats}", "instructions", given | {"which": at, "repeats": repeats}, ((8,),), (8,), "float32", "910B1")
        for at, name in enumerate(INSTRUCTIONS)
        for repeats in (16, 48)
    ]
    took = {one.row.name: one.us for one in costs.estimate_rows(wanted, workdir, QUICK_S)}
    cycles = {name: (took[f"{name} 48"] - took[f"{name} 16"]) * find_chip("910B1").ghz * 1e3 / 32 for name in INSTRUCTIONS}
    expected_cycles = {name: find_chip("910B1").instruction_cycles(name, dtype) for name in INSTRUCTIONS}
    assert {name: round(value, 3) for name, value in cycles.items()} == expected_cycles
