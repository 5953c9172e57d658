"""What PyTorch is estimated to pay on a 910B, and the chips it is estimated for."""

import re
from pathlib import Path

import pytest

import evokernel.backends.ascendc as package
from evokernel.backends.ascendc import baseline as module
from evokernel.backends.ascendc.baseline import Load, Part, baseline_us, instructions, part, table, vector, work
from evokernel.backends.ascendc.chips import SETTINGS, chip, chips
from evokernel.core.records import Task
from evokernel.reference.program import Argument, Program, Ref, Step, program_of
from evokernel.tasks import loader

HEADER = Path(package.__path__[0]) / "twin" / "runtime" / "chip.h"
CHIP = chip("910B2")
FORWARD = """
import torch
import torch.nn.functional as F
N = {n}
class Model(torch.nn.Module):
    def forward(self, {names}):
        return {body}
def get_inputs():
    return [{inputs}]
def get_init_inputs():
    return []
"""


def made(tmp_path: Path, body: str, inputs: str = "torch.rand(N, N)", n: int = 1024) -> Task:
    """A task that computes `body` of x (and y)."""
    names = ", ".join("xyz"[: len(re.findall(r"torch\.\w+\(", inputs))])
    path = tmp_path / f"made{len(list(tmp_path.iterdir()))}.py"
    path.write_text(FORWARD.format(n=n, names=names, body=body, inputs=inputs))
    return loader.load(str(path))[0]


def fixed_us(reads: int = 1) -> float:
    """What every kernel pays."""
    return CHIP.launch_us + CHIP.us((1 + reads) * CHIP.copy(0))


def test_the_twin_is_told_every_number_it_has_a_name_for() -> None:
    fields = re.search(r"struct Chip \{(.*?)\n  double copy\(", HEADER.read_text(), re.DOTALL)
    assert fields
    declared = {
        name for line in re.findall(r"^  double (.*?);", fields[1], re.MULTILINE) for name in re.findall(r"(\w+)(?:\[\w+\])? =", line)
    }
    assert declared == set(CHIP.as_settings()) == {*SETTINGS, "copy_kib", "copy_cycles"}


def test_settings_are_lines_of_plain_numbers() -> None:
    lines = dict(line.split("=") for line in CHIP.as_lines().splitlines())
    assert float(lines["l2_bytes"]) == CHIP.l2_bytes == 192 << 20
    assert [float(point) for point in lines["copy_cycles"].split(",")] == list(CHIP.copy_cycles)


def test_chips_differ_as_published() -> None:
    cores = {name: (one.aic_cores, one.aiv_cores, one.ghz) for name, one in chips().items()}
    assert cores == {"910B1": (24, 48, 1.85), "910B2": (24, 48, 1.8), "910B3": (20, 40, 1.8), "910B4": (20, 40, 1.5)}
    assert chip("Ascend910B3").name == "910B3"
    with pytest.raises(ValueError, match=r"unknown chip '910b22' \(did you mean '910B2'\?\)"):
        chip("910b22")


def test_copies_cost_what_the_table_says_and_lie_on_lines_between() -> None:
    assert [CHIP.copy(kib * 1024) for kib in CHIP.copy_kib] == list(CHIP.copy_cycles)
    assert CHIP.copy(14 * 1024) == (378 + 404) / 2
    assert CHIP.copy(192 * 1024) == 2800 + (2800 - 1413)


def test_every_mix_is_of_instructions_with_a_price() -> None:
    unpriced = {name for mix in table().mix.values() for name in instructions(mix)} - set(CHIP.vector)
    chained = {name for chain in table().chains.values() for name in chain} - set(table().mix)
    assert not unpriced
    assert not chained


def test_an_addition_costs_its_three_tensors(tmp_path: Path) -> None:
    small = made(tmp_path, "x + y", "torch.rand(N, N), torch.rand(N, N)")
    assert baseline_us(small, CHIP).us == pytest.approx(fixed_us() + CHIP.us(3 * 4 * 1024**2 / CHIP.l2_bytes_per_cycle))
    large = made(tmp_path, "x + y", "torch.rand(N, N), torch.rand(N, N)", n=4096)
    assert baseline_us(large, CHIP).us == pytest.approx(fixed_us() + CHIP.us(3 * 4 * 4096**2 / CHIP.hbm_bytes_per_cycle))


def test_the_published_addition_is_met() -> None:
    elements, one = 8192 * 8192, chip("910B1")
    found = part(Load("add", 4.0 * elements, 2.0 * elements, vector("add", elements, "float16", one)), one)
    assert found.us == pytest.approx(266, rel=0.03)  # asc-devkit, in half on 48 cores with double buffers
    assert found.bound == "memory"


def test_a_long_formula_costs_more_than_its_bytes(tmp_path: Path) -> None:
    found = baseline_us(made(tmp_path, "F.mish(x)"), CHIP)
    assert found.parts[0].bound == "vector"
    assert found.us is not None
    assert found.us > fixed_us() + CHIP.us(2 * 4 * 1024**2 / CHIP.l2_bytes_per_cycle)
    softmax = baseline_us(loader.load("starter/softmax")[0], CHIP)
    assert softmax.us is not None
    assert softmax.us >= fixed_us() + CHIP.us(2 * 4 * 512 * 1024 / CHIP.l2_bytes_per_cycle)


def product_us(dtype: str, side: int = 2048) -> Part:
    """Of two square matrices; no data is made for it."""
    step = Step(name="v", op="aten.matmul.default", args=(Ref(name="x"), Ref(name="y")), shapes=((side, side),), dtypes=(dtype,))
    given = tuple(Argument(name=name, shape=(side, side), dtype=dtype) for name in "xy")
    loads, notes = work(Program(arguments=given, steps=(step,), outputs=(Ref(name="v"),), sizes=1), CHIP)
    assert not notes
    (load,) = loads
    return part(load, CHIP)


def test_a_product_of_matrices_is_bound_by_the_cube_and_faster_in_half() -> None:
    single, half = product_us("float32"), product_us("bfloat16")
    cycles = 2048**3 / (24 * 1024 * table().cube_efficiency)
    assert single.bound == half.bound == "cube"
    assert single.us == pytest.approx(fixed_us() + CHIP.us(cycles))
    assert half.us == pytest.approx(fixed_us() + CHIP.us(cycles / 4))


def test_a_chain_costs_the_sum_of_its_operators(tmp_path: Path) -> None:
    chain = baseline_us(made(tmp_path, "torch.exp(x + y) * y", "torch.rand(N, N), torch.rand(N, N)"), CHIP)
    alone = [baseline_us(made(tmp_path, body, "torch.rand(N, N), torch.rand(N, N)"), CHIP).us for body in ("x + y", "x * y")]
    exp = baseline_us(made(tmp_path, "torch.exp(x)"), CHIP).us
    assert [one.op for one in chain.parts] == ["add", "exp", "mul"]
    assert None not in alone
    assert exp is not None
    assert chain.us == pytest.approx(alone[0] + exp + alone[1])  # type: ignore[operator]


def test_views_cost_nothing_until_they_must_lie_in_order(tmp_path: Path) -> None:
    assert [one.op for one in baseline_us(made(tmp_path, "torch.exp(x.t())"), CHIP).parts] == ["exp"]
    assert [one.op for one in baseline_us(made(tmp_path, "torch.exp(x.t().reshape(-1))"), CHIP).parts] == ["reshape", "exp"]
    assert [one.op for one in baseline_us(made(tmp_path, "torch.exp(x.reshape(-1))"), CHIP).parts] == ["exp"]


def test_expanded_tensors_are_read_once(tmp_path: Path) -> None:
    spread = baseline_us(made(tmp_path, "x + y.expand(N, N)", "torch.rand(N, N), torch.rand(1, N)"), CHIP).us
    assert spread == pytest.approx(fixed_us() + CHIP.us((2 * 4 * 1024**2 + 4 * 1024) / CHIP.l2_bytes_per_cycle))


def test_unknown_operators_are_priced_by_their_bytes_and_named(tmp_path: Path) -> None:
    found = baseline_us(made(tmp_path, "torch.sort(x)[0]"), CHIP)
    assert found.notes == ("sort: priced by its bytes only",)
    assert found.us is not None
    assert found.us > fixed_us()


def test_the_same_operators_cost_more_on_a_smaller_chip(tmp_path: Path) -> None:
    task = made(tmp_path, "F.mish(x)")
    times = [baseline_us(task, chip(name)).us or 0.0 for name in ("910B1", "910B2", "910B3", "910B4")]
    assert times == sorted(times)
    assert len(set(times)) == 4


def test_attention_in_half_is_one_kernel_and_in_float_three(tmp_path: Path) -> None:
    shapes = ", ".join(["torch.rand(2, 4, N, 64)"] * 3)
    steps = made(tmp_path, "F.scaled_dot_product_attention(x, y, z)", shapes, n=256)
    fused = made(tmp_path, "F.scaled_dot_product_attention(x, y, z)", shapes.replace("64)", "64).half()"), n=256)
    assert len(baseline_us(steps, CHIP).parts) == 3
    assert len(baseline_us(fused, CHIP).parts) == 1


def test_steps_that_depend_on_the_size_are_priced_at_bench_size(tmp_path: Path) -> None:
    task = made(tmp_path, "sum(row * 2 for row in x.unbind())", n=64)
    assert program_of(task).gap == "steps that depend on the size"
    assert [one.op for one in baseline_us(task, CHIP).parts].count("mul") == 64


def test_what_cannot_be_traced_has_no_baseline(tmp_path: Path) -> None:
    found = baseline_us(made(tmp_path, "x[x > 0.5].sum().reshape(1)"), CHIP)
    assert found.us is None
    assert found.notes[0].startswith("no baseline: ")


@pytest.mark.parametrize("task", loader.load("starter"), ids=lambda task: task.id)
def test_starter_tasks_have_a_baseline_above_their_floor(task: Task) -> None:
    found = baseline_us(task, CHIP)
    assert found.us is not None
    assert not found.notes
    assert found.us > CHIP.launch_us + CHIP.least_us(task.work.bytes)
    assert module.NAME == "torch (estimate)"
