"""The estimated time of PyTorch on a 910B, and the chip tables."""

import re
from pathlib import Path

import pytest

import evokernel.backends.ascendc as package
from evokernel.backends.ascendc import baseline as module
from evokernel.backends.ascendc.baseline import (
    SOURCE,
    BaselineEstimate,
    estimate_baseline,
    expand_instructions,
    list_kernels,
    load_cost_table,
    vector_work,
)
from evokernel.backends.ascendc.chips import RUNTIME_SETTINGS, find_chip, load_chips
from evokernel.backends.ascendc.kernel_cost import KernelEstimate, KernelWork, estimate_cube_cycles, estimate_kernel
from evokernel.backends.ascendc.matmul_cost import CubeWork
from evokernel.core.records import Task
from evokernel.reference.program import Argument, Program, Step, ValueRef
from evokernel.reference.program_cache import load_task_program
from evokernel.suites import loader

HEADER = Path(package.__path__[0]) / "simulator" / "runtime" / "chip.h"
CHIP = find_chip("910B2")
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
    return loader.load_tasks(str(path))[0]


def fixed_us(reads: int = 1) -> float:
    """What every kernel pays."""
    return CHIP.launch_us + CHIP.cycles_to_us((1 + reads) * CHIP.estimate_copy_cycles(0))


def estimate_work(work: KernelWork) -> KernelEstimate:
    return estimate_kernel(work, CHIP)


def add_work(elements: int, dtype: str = "float32") -> KernelWork:
    """The sum of two tensors."""
    size = 4.0 if dtype == "float32" else 2.0
    return KernelWork("add", 2 * size * elements, size * elements, vector_work("add", elements, dtype, CHIP))


def test_simulator_gets_every_setting_it_knows() -> None:
    fields = re.search(r"struct Chip \{(.*?)\n  double copy\(", HEADER.read_text(), re.DOTALL)
    assert fields
    declared = {
        name for line in re.findall(r"^  double (.*?);", fields[1], re.MULTILINE) for name in re.findall(r"(\w+)(?:\[\w+\])? =", line)
    }
    assert declared == set(CHIP.runtime_settings()) == {*RUNTIME_SETTINGS, "copy_kib", "copy_cycles"}


def test_settings_are_lines_of_plain_numbers() -> None:
    lines = dict(line.split("=") for line in CHIP.runtime_config_text().splitlines())
    assert float(lines["l2_bytes"]) == CHIP.l2_bytes == 192 << 20
    assert [float(point) for point in lines["copy_cycles"].split(",")] == list(CHIP.copy_cycles)


def test_chips_differ_as_published() -> None:
    cores = {name: (one.aic_cores, one.aiv_cores, one.ghz) for name, one in load_chips().items()}
    assert cores == {"910B1": (24, 48, 1.85), "910B2": (24, 48, 1.8), "910B3": (20, 40, 1.8), "910B4": (20, 40, 1.5)}
    assert find_chip("Ascend910B3").name == "910B3"
    with pytest.raises(ValueError, match=r"unknown chip '910b22' \(did you mean '910B2'\?\)"):
        find_chip("910b22")


def test_copy_cycles_interpolate_the_table() -> None:
    assert [CHIP.estimate_copy_cycles(kib * 1024) for kib in CHIP.copy_kib] == list(CHIP.copy_cycles)
    assert CHIP.estimate_copy_cycles(14 * 1024) == (378 + 404) / 2
    assert CHIP.estimate_copy_cycles(192 * 1024) == 2800 + (2800 - 1413)


def test_every_mix_uses_instructions_with_known_cycles() -> None:
    unpriced = {name for mix in load_cost_table().instruction_mix.values() for name in expand_instructions(mix)} - set(CHIP.vector)
    chained = {name for chain in load_cost_table().kernel_chains.values() for name in chain} - set(load_cost_table().instruction_mix)
    assert not unpriced
    assert not chained


def test_addition_costs_little_more_than_traffic_of_three_tensors(tmp_path: Path) -> None:
    for n, rate, most in ((1024, CHIP.l2_bytes_per_cycle, 1.35), (4096, CHIP.hbm_bytes_per_cycle, 1.02)):
        found = estimate_baseline(made(tmp_path, "x + y", "torch.rand(N, N), torch.rand(N, N)", n=n), CHIP).us
        bound = fixed_us() + CHIP.cycles_to_us(3 * 4 * n**2 / rate)
        assert found is not None
        assert bound <= found < most * bound


def test_estimate_matches_published_addition() -> None:
    found = estimate_kernel(add_work(8192 * 8192, "float16"), find_chip("910B1"))
    assert found.us == pytest.approx(266, rel=0.03)  # asc-devkit, in half on 48 cores with double buffers
    assert found.bound == "memory"


def test_a_long_formula_costs_more_than_its_bytes(tmp_path: Path) -> None:
    found = estimate_baseline(made(tmp_path, "F.mish(x)"), CHIP)
    assert found.kernels[0].bound == "vector"
    assert found.us is not None
    assert found.us > fixed_us() + CHIP.cycles_to_us(2 * 4 * 1024**2 / CHIP.l2_bytes_per_cycle)
    softmax = estimate_baseline(loader.load_tasks("starter/softmax")[0], CHIP)
    assert softmax.us is not None
    assert softmax.us >= fixed_us() + CHIP.cycles_to_us(2 * 4 * 512 * 1024 / CHIP.l2_bytes_per_cycle)


def product_us(dtype: str, side: int = 2048) -> KernelEstimate:
    """Of two square matrices; no data is made for it."""
    step = Step(name="v", op="aten.matmul.default", args=(ValueRef(name="x"), ValueRef(name="y")), shapes=((side, side),), dtypes=(dtype,))
    given = tuple(Argument(name=name, shape=(side, side), dtype=dtype) for name in "xy")
    loads, notes = list_kernels(Program(arguments=given, steps=(step,), outputs=(ValueRef(name="v"),), sizes=1), CHIP)
    assert not notes
    (load,) = loads
    return estimate_work(load)


def test_matmul_pays_for_the_start_of_the_library_and_is_faster_in_half() -> None:
    single, half = product_us("float32"), product_us("bfloat16")
    assert single.bound == half.bound == "cube"
    started = CHIP.launch_us + CHIP.cycles_to_us(CHIP.matmul_start)
    assert single.outside_us == half.outside_us == pytest.approx(started)
    peak = CHIP.cycles_to_us(2048**3 / (24 * 1024))
    assert started + peak < single.us < started + 1.3 * peak
    assert started + peak / 4 < half.us < single.us / 2


@pytest.mark.parametrize("side", [16, 64, 256, 1024, 4096, 16384, 100_000])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_products_cost_more_with_size_and_never_less_than_the_roofline(side: int, dtype: str) -> None:
    small, large = product_us(dtype, side), product_us(dtype, 2 * side)
    assert small.us < large.us
    macs, size = (1024, 4) if dtype == "float32" else (4096, 2)
    assert small.us > CHIP.launch_us + max(CHIP.cycles_to_us(side**3 / (24 * macs)), CHIP.minimum_transfer_us(3.0 * size * side**2))


def test_large_products_reach_most_of_the_peak_and_small_ones_little() -> None:
    """Measured with large matrices: 328 of 354 TFLOPS in bfloat16, 87 of 88 in float32 (README of the public repository limulidae)."""
    peak_us = {side: CHIP.cycles_to_us(side**3 / (24 * 4096)) for side in (512, 16384)}
    assert 0.75 < peak_us[16384] / product_us("bfloat16", 16384).us < 0.95
    assert 0.9 < 4 * peak_us[16384] / product_us("float32", 16384).us < 1
    assert peak_us[512] / product_us("bfloat16", 512).us < 0.1


@pytest.mark.parametrize("power", range(1, 34))
def test_tiles_cost_more_with_size_and_never_less_than_the_roofline(power: int) -> None:
    found, twice = estimate_work(add_work(2**power)), estimate_work(add_work(2 ** (power + 1)))
    assert found.us <= twice.us
    assert found.us > CHIP.launch_us + CHIP.minimum_transfer_us(12.0 * 2**power)


def test_every_kernel_pays_for_a_launch(tmp_path: Path) -> None:
    chain = estimate_baseline(made(tmp_path, "torch.exp(x + y) * y", "torch.rand(N, N), torch.rand(N, N)", n=8), CHIP)
    assert chain.outside_us == 3 * CHIP.launch_us
    assert all(kernel.us > CHIP.launch_us for kernel in chain.kernels)
    assert chain.source == SOURCE == BaselineEstimate(None).source
    assert chain.describe().startswith("PyTorch is estimated by the formulas of the simulator: 3 kernels, 6.0 of ")


def test_huge_tensors_are_estimated_without_running_anything() -> None:
    huge = estimate_work(add_work(10**10))
    assert huge.us == pytest.approx(CHIP.cycles_to_us(1.2e11 / CHIP.hbm_bytes_per_cycle), rel=0.01)
    wide = CubeWork(1, 10**6, 10**4, 10**4, "float16")
    assert estimate_cube_cycles(wide, CHIP.name) > 10**14 / (24 * 4096)


def test_fewer_cores_than_results_are_combined_and_long_rows_read_twice(tmp_path: Path) -> None:
    rows = estimate_baseline(made(tmp_path, "x.sum(-1)", n=2048), CHIP).us
    whole = estimate_baseline(made(tmp_path, "x.sum().reshape(1)", n=2048), CHIP).us
    assert rows is not None
    assert whole is not None
    assert whole > rows + CHIP.cycles_to_us(CHIP.sync_all) * 0.9
    short = estimate_baseline(made(tmp_path, "torch.softmax(x, -1)", "torch.rand(65536, 1024)"), CHIP).us
    long = estimate_baseline(made(tmp_path, "torch.softmax(x, -1)", "torch.rand(1024, 65536)"), CHIP).us
    assert short is not None
    assert long is not None
    assert long > 1.4 * short


def test_a_chain_costs_the_sum_of_its_operators(tmp_path: Path) -> None:
    chain = estimate_baseline(made(tmp_path, "torch.exp(x + y) * y", "torch.rand(N, N), torch.rand(N, N)"), CHIP)
    alone = [estimate_baseline(made(tmp_path, body, "torch.rand(N, N), torch.rand(N, N)"), CHIP).us for body in ("x + y", "x * y")]
    exp = estimate_baseline(made(tmp_path, "torch.exp(x)"), CHIP).us
    assert [one.op for one in chain.kernels] == ["add", "exp", "mul"]
    assert None not in alone
    assert exp is not None
    assert chain.us == pytest.approx(alone[0] + exp + alone[1])  # type: ignore[operator]


def test_views_cost_nothing_until_they_must_be_contiguous(tmp_path: Path) -> None:
    assert [one.op for one in estimate_baseline(made(tmp_path, "torch.exp(x.t())"), CHIP).kernels] == ["exp"]
    assert [one.op for one in estimate_baseline(made(tmp_path, "torch.exp(x.t().reshape(-1))"), CHIP).kernels] == ["reshape", "exp"]
    assert [one.op for one in estimate_baseline(made(tmp_path, "torch.exp(x.reshape(-1))"), CHIP).kernels] == ["exp"]


def test_expanded_tensors_are_read_once(tmp_path: Path) -> None:
    spread = estimate_baseline(made(tmp_path, "x + y.expand(N, N)", "torch.rand(N, N), torch.rand(1, N)"), CHIP).us
    full = estimate_baseline(made(tmp_path, "x + y", "torch.rand(N, N), torch.rand(N, N)"), CHIP).us
    once = estimate_work(KernelWork("add", 4.0 * 1024**2 + 4 * 1024, 4.0 * 1024**2, vector_work("add", 1024**2, "float32", CHIP))).us
    assert spread == pytest.approx(once)
    assert full is not None
    assert once < full


def test_unknown_operators_are_estimated_by_bytes_and_noted(tmp_path: Path) -> None:
    found = estimate_baseline(made(tmp_path, "torch.sort(x)[0]"), CHIP)
    assert found.notes == ("sort: estimated from its bytes only",)
    assert found.us is not None
    assert found.us > fixed_us()


def test_the_same_operators_cost_more_on_a_smaller_chip(tmp_path: Path) -> None:
    task = made(tmp_path, "F.mish(x)")
    times = [estimate_baseline(task, find_chip(name)).us or 0.0 for name in ("910B1", "910B2", "910B3", "910B4")]
    assert times == sorted(times)
    assert len(set(times)) == 4


def test_attention_in_half_is_one_kernel_and_in_float_three(tmp_path: Path) -> None:
    shapes = ", ".join(["torch.rand(2, 4, N, 64)"] * 3)
    steps = made(tmp_path, "F.scaled_dot_product_attention(x, y, z)", shapes, n=256)
    fused = made(tmp_path, "F.scaled_dot_product_attention(x, y, z)", shapes.replace("64)", "64).half()"), n=256)
    assert len(estimate_baseline(steps, CHIP).kernels) == 3
    assert len(estimate_baseline(fused, CHIP).kernels) == 1


def test_size_dependent_steps_are_estimated_at_bench_size(tmp_path: Path) -> None:
    task = made(tmp_path, "sum(row * 2 for row in x.unbind())", n=64)
    assert load_task_program(task).unsupported_reason == "steps that depend on the size"
    assert [one.op for one in estimate_baseline(task, CHIP).kernels].count("mul") == 64


def test_untraceable_reference_has_no_baseline(tmp_path: Path) -> None:
    found = estimate_baseline(made(tmp_path, "x[x > 0.5].sum().reshape(1)"), CHIP)
    assert found.us is None
    assert found.notes[0].startswith("no baseline: ")


@pytest.mark.parametrize("task", loader.load_tasks("starter"), ids=lambda task: task.id)
def test_baseline_of_starter_tasks_is_above_roofline(task: Task) -> None:
    found = estimate_baseline(task, CHIP)
    assert found.us is not None
    assert not found.notes
    assert found.us > CHIP.launch_us + CHIP.minimum_transfer_us(task.work.bytes)
    assert module.NAME == "torch (estimate)"
