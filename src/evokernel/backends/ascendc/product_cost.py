"""The cycles of a matrix product through the library's Matmul on one cube core, with the formulas of the simulator's `matmul_cost.h`."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from evokernel.backends.ascendc.chips import Chip

BLOCK_SIDE = 16
"""Side of the blocks that the cube multiplies; blocks of int8 are twice as deep."""


class Factor(NamedTuple):
    """One of the two matrices of a product, as it is in global memory."""

    element_bytes: int
    row: int = 0
    """Elements that are contiguous in each row of a copy; 0 if the copy has no rows."""
    is_aligned: bool = True
    """Whether rows start at multiples of 32 bytes."""
    sharers: int = 1
    """Cores that read the same elements at about the same time."""
    copied_share: float = 1.0
    """Bytes that are copied, divided by the bytes that are multiplied: the windows of a convolution overlap in L1."""


class Product(NamedTuple):
    """The part of a product that one core computes with one request."""

    rows: int
    columns: int
    depth: int
    left: Factor
    right: Factor
    out_bytes: int
    macs_per_cycle: int
    base: tuple[int, int, int] = (128, 256, 64)
    """Rows, columns and depth of a base block."""
    steps: tuple[int, int] = (1, 1)
    """Base blocks of the two factors that a copy fetches along the depth."""
    is_single: bool = False
    """Whether L1 has room for only one base block of each factor."""


class MemoryRates(NamedTuple):
    """Bytes per cycle for one cube core while all cores move data."""

    l2: float
    hbm: float
    misses: bool
    """Whether the factors are not in L2 when the kernel starts."""
    keeps: bool
    """Whether L2 keeps the result."""


class ProductCycles(NamedTuple):
    """The parts of a product's time."""

    mac: float
    into_l1: float
    into_l0: float
    leaving: float
    total: float


def memory_rates(chip: Chip, footprint: float, cores: int) -> MemoryRates:
    """The rates for each of `cores` cube cores that access `footprint` bytes together."""
    keeps = footprint < chip.l2_share * chip.l2_bytes
    return MemoryRates(chip.l2_bytes_per_cycle / cores, chip.hbm_bytes_per_cycle / cores, not keeps or chip.cold_l2 > 0, keeps)


def estimate_product(product: Product, memory: MemoryRates, chip: Chip) -> ProductCycles:
    """The longest of the multiplications and the copies, after the latency of the first copy; then the output."""
    base_m, base_n, base_k = product.base
    tiles_m, tiles_n = ceil(product.rows / base_m), ceil(product.columns / base_n)
    latency = chip.estimate_copy_cycles(0)
    strip = BLOCK_SIDE * 2 if product.left.element_bytes == 1 else BLOCK_SIDE
    blocks = ceil(product.rows / BLOCK_SIDE) * ceil(product.columns / BLOCK_SIDE) * ceil(product.depth / strip)
    mac = BLOCK_SIDE**2 * strip * blocks / product.macs_per_cycle
    left_bytes = float(product.left.element_bytes * product.rows * product.depth * tiles_n)
    right_bytes = float(product.right.element_bytes * product.columns * product.depth * tiles_m)
    left_copy = product.left.element_bytes * base_m * base_k * product.steps[0]
    right_copy = product.right.element_bytes * base_n * base_k * product.steps[1]
    left_cycles, left_misses = estimate_factor(product.left, left_bytes, tiles_n, memory, left_copy, chip)
    right_cycles, right_misses = estimate_factor(product.right, right_bytes, tiles_m, memory, right_copy, chip)
    into_l0 = (left_bytes + right_bytes) / chip.l1_to_l0_bytes_per_cycle
    exposed = tiles_m * tiles_n * ceil(product.depth / base_k) if product.is_single else left_misses + right_misses
    into_l1 = left_cycles + right_cycles + exposed * latency + (into_l0 if product.is_single else 0.0)
    out_rate = min(chip.fixpipe_bytes_per_cycle, memory.l2 if memory.keeps else memory.hbm)
    leaving = product.rows * product.columns * product.out_bytes / out_rate
    return ProductCycles(mac, into_l1, into_l0, leaving, latency + max(mac, into_l1, into_l0) + leaving)


def estimate_factor(factor: Factor, size: float, passes: int, memory: MemoryRates, copy_bytes: float, chip: Chip) -> tuple[float, float]:
    """The cycles of all copies of a factor, and the number of copies that miss L2."""
    size *= factor.copied_share
    l2 = min(row_rate(factor, chip), memory.l2)
    hbm = min(l2, memory.hbm)
    outside = size / (passes * factor.sharers) if memory.misses else 0.0
    return outside / hbm + (size - outside) / l2, outside / copy_bytes


def row_rate(factor: Factor, chip: Chip) -> float:
    """Bytes per cycle into L1: short rows take a minimum of cycles, rows at odd addresses are slow."""
    if factor.row <= 0:
        return chip.matmul_bytes_per_cycle
    if not factor.is_aligned:
        return chip.matmul_odd_bytes_per_cycle
    row_bytes = factor.row * factor.element_bytes
    return row_bytes / max(chip.matmul_row, row_bytes / chip.matmul_bytes_per_cycle)
