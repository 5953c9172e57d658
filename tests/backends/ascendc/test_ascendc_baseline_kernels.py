"""The formulas of the baseline for rows, scans and poolings agree with simulated kernels of the library's calls. No clock is read."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from evokernel.backends.ascendc.chips import find_chip
from evokernel.backends.native.toolchain import missing_compiler_message

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
CHIP, QUICK_S = find_chip("910B2"), 0.3
LEAST, MOST = 0.78, 1.03
"""A formula is optimistic: it leaves out conflicts of banks and waits of the scalar unit, and charges only what a kernel pays."""
pytestmark = [pytest.mark.slow(one_in=5), pytest.mark.skipif(bool(missing_compiler_message("")), reason="no C++ compiler")]


@pytest.fixture(scope="module")
def benchmark_module() -> ModuleType:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        spec = importlib.util.spec_from_file_location("ascendc_baseline", BENCHMARKS / "ascendc_baseline.py")
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(BENCHMARKS))
    return module


@pytest.mark.parametrize("kernel", ["tiles", "scan", "pool"])
def test_formula_is_at_most_the_simulated_kernel_and_close_to_it(benchmark_module: ModuleType, tmp_path: Path, kernel: str) -> None:
    pairs = [(row, work) for row, work in benchmark_module.list_kernel_rows(CHIP) if row.kernel == kernel]
    estimates = benchmark_module.ascendc_costs.estimate_rows([row for row, _ in pairs], tmp_path, QUICK_S)
    simulated = {one.row.name: one.us for one in estimates}
    ratios = {row.name: benchmark_module.estimate_kernel(work, CHIP).us / simulated[row.name] for row, work in pairs}
    assert ratios
    assert not {name: ratio for name, ratio in ratios.items() if not LEAST < ratio < MOST}
