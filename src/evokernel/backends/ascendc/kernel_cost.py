"""The time of a well-written kernel of one operator: a product through Matmul, or tiles that vector units process on all cores.

The formulas and constants are those of the simulator: what a candidate pays for, these kernels pay for too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from evokernel.backends.ascendc.chips import REPEAT_BYTES, Chip, find_chip
from evokernel.backends.ascendc.matmul_cost import CubeWork
from evokernel.backends.ascendc.product_cost import BLOCK_SIDE, Factor, Product, estimate_product, memory_rates

BASES = ((128, 256), (256, 128), (128, 128), (64, 64), (32, 32), (16, 16))
"""Rows and columns of the base blocks that a tiling chooses from; the documentation recommends the first."""
CORE_BYTES = 512
"""A core gets at least this much of a tensor."""
ALIGNMENT = 32
PIPELINE_CALLS = 8
"""Calls that manage the queues, for each tile."""
MORE_TILES = 8
UB_TENSORS = 6
"""Tiles that UB holds at once: two buffers for what comes and for what leaves, and two for intermediate results."""
LIBRARY_REDUCTION_CYCLES = 2
"""Of the library's reductions of rows for each repeat (simulator/runtime/reductions.h)."""
BLOCK_ELEMENTS = 8
"""Floats in a block of 32 bytes."""


class VectorWork(NamedTuple):
    """The work of the vector units on one tensor, tile by tile."""

    tensor_bytes: float = 0.0
    """Of the largest tensor, in the type that the units compute with."""
    cycles_per_repeat: float = 0.0
    instructions: int = 0
    """For each tile, without the reductions."""
    reductions: int = 0
    """How often the elements of each row are combined to one."""
    rows: int = 0
    """Rows that are reduced."""
    row_cycles: float = 0.0
    """Further cycles for each row."""


class KernelWork(NamedTuple):
    """The traffic and computation of one kernel."""

    op: str
    read_bytes: float
    written_bytes: float
    vector: VectorWork = VectorWork()
    products: tuple[CubeWork, ...] = ()
    is_combined: bool = False
    """Whether the results of all cores are combined in the end, because there are fewer results than cores."""
    copies: int = 0
    """Copies of single rows, if the kernel cannot copy complete tiles."""


class KernelEstimate(NamedTuple):
    """The estimated time of one kernel."""

    op: str
    us: float
    bound: str
    """The longest part apart from the launch: `memory`, `vector` or `cube`."""
    outside_us: float = 0.0
    """Part of the time in which the cores do not work: the launch, the start of the cube and of Matmul."""


def estimate_kernel(work: KernelWork, chip: Chip) -> KernelEstimate:
    """The launch, the starts, and the longest part of the work."""
    if not work.products:
        cycles, bound = estimate_tiles(work, chip)
        return KernelEstimate(work.op, chip.launch_us + chip.cycles_to_us(cycles), bound, chip.launch_us)
    start = chip.matmul_start + (chip.cube_start * chip.aic_cores if work.vector.tensor_bytes else 0.0)
    cube = sum(estimate_cube_cycles(product, chip.name, chip.cold_l2) for product in work.products)
    vector, _ = estimate_tiles(work, chip) if work.vector.tensor_bytes else (0.0, "")
    moved = work.read_bytes + work.written_bytes
    memory = moved / chip.bandwidth_for_footprint(moved)
    bound = max((cube, "cube"), (vector, "vector"), (memory, "memory"))[1]
    outside = chip.launch_us + chip.cycles_to_us(start)
    return KernelEstimate(work.op, outside + chip.cycles_to_us(max(cube, vector, memory)), bound, outside)


# ---- products


@lru_cache(maxsize=4096)
def estimate_cube_cycles(work: CubeWork, chip_name: str, cold_l2: float = 0.0) -> float:
    """The cycles of all products with the fastest split among the cores; the template is MDL."""
    chip = replace(find_chip(chip_name), cold_l2=cold_l2)
    best = min(
        estimate_split(work, base, grid, chip) for base in BASES if not is_oversized(base, work) for grid in list_grids(work, base, chip)
    )
    return work.repeats * best


def is_oversized(base: tuple[int, int], work: CubeWork) -> bool:
    """Whether a smaller base block also covers the complete product."""
    return any(side > BLOCK_SIDE and side // 2 >= extent for side, extent in zip(base, (work.rows, work.columns)))


def list_grids(work: CubeWork, base: tuple[int, int], chip: Chip) -> list[tuple[int, int, int]]:
    """Numbers of parts along the rows, the columns and the depth, such that all cores have a part if possible."""
    tiles_m, tiles_n = ceil(work.rows / base[0]), ceil(work.columns / base[1])
    cores = max(1, chip.aic_cores // work.batch)
    grids = {(min(m, tiles_m), min(tiles_n, max(1, cores // m)), 1) for m in range(1, cores + 1)}
    spare = cores // (tiles_m * tiles_n)
    if spare > 1 and work.is_stored:
        grids.add((tiles_m, tiles_n, min(spare, max(1, work.depth // 256))))
    return sorted(grids)


def estimate_split(work: CubeWork, base: tuple[int, int], grid: tuple[int, int, int], chip: Chip) -> float:
    """The cycles of the busiest core."""
    size = element_bytes(work.dtype)
    rows, columns = (
        min(extent, ceil(ceil(extent / side) / parts) * side) for extent, side, parts in zip((work.rows, work.columns), base, grid)
    )
    depth = ceil(work.depth / grid[2])
    used = ceil(work.rows / rows) * ceil(work.columns / columns) * grid[2] * work.batch
    cores = min(chip.aic_cores, used)
    base_k = max(
        BLOCK_SIDE, min(ceil(depth / BLOCK_SIDE) * BLOCK_SIDE, chip.l0a_bytes // 2 // (size * max(base)) // BLOCK_SIDE * BLOCK_SIDE)
    )
    step = 1
    while step * base_k < depth and 4 * step * sum(base) * base_k * size <= chip.l1_bytes:
        step *= 2
    together = max(1, cores // max(1, min(cores, work.batch)))
    left = Factor(
        size,
        min(depth, base_k * step) if work.has_rows else 0,
        work.depth * size % ALIGNMENT == 0,
        min(together, ceil(work.columns / columns)),
        work.copied_share,
    )
    right_row, right_pitch = (min(depth, base_k * step), work.depth) if work.is_right_turned else (min(columns, base[1]), work.columns)
    right = Factor(size, right_row if work.has_rows else 0, right_pitch * size % ALIGNMENT == 0, min(together, ceil(work.rows / rows)))
    out_bytes = (4 if grid[2] > 1 else size) if work.is_stored else 0
    product = Product(rows, columns, depth, left, right, out_bytes, macs_per_cycle(work.dtype, chip), (*base, base_k), (step, step))
    outputs = work.rows * work.columns * (1 if work.is_stored else 0)
    footprint = float(work.batch * size * (work.rows * work.depth * work.copied_share + work.columns * work.depth + outputs))
    return ceil(used / cores) * estimate_product(product, memory_rates(chip, footprint, cores), chip).total


def macs_per_cycle(dtype: str, chip: Chip) -> int:
    """Multiply-adds of a cube core per cycle; float32 at full precision, the default of torch_npu for matrices."""
    if dtype in ("float16", "bfloat16"):
        return chip.cube_macs_half
    return chip.cube_macs_int8 if dtype in ("int8", "uint8") else chip.cube_macs_float


def element_bytes(dtype: str) -> int:
    """Bytes of an element."""
    return max(1, int("".join(filter(str.isdigit, dtype)) or 8) // 8)


# ---- tiles


def estimate_tiles(work: KernelWork, chip: Chip) -> tuple[float, str]:
    """The cycles of a pipeline of copies in, vector instructions and copies out with double buffers, and the longest of these."""
    main_bytes = max(work.vector.tensor_bytes, work.read_bytes, work.written_bytes, 1.0)
    cores = max(1, min(chip.aiv_cores, ceil(main_bytes / CORE_BYTES)))
    each = ceil(main_bytes / cores / ALIGNMENT) * ALIGNMENT
    fewest = ceil(each / (chip.ub_bytes // UB_TENSORS))
    counts = {*range(fewest, fewest + MORE_TILES), *(2**power for power in range(8) if 2**power >= fewest)}
    cycles, bound = min(estimate_pipeline(work, chip, cores, tiles) for tiles in counts)
    combined = chip.sync_all + 2 * chip.estimate_copy_cycles(0) if work.is_combined else 0.0
    return cycles + combined, bound


def estimate_pipeline(work: KernelWork, chip: Chip, cores: int, tiles: int) -> tuple[float, str]:
    """The first tile passes all stages; each further tile takes as long as the slowest stage."""
    moved = work.read_bytes + work.written_bytes
    in_l2 = moved <= chip.l2_share * chip.l2_bytes and not chip.cold_l2
    share = chip.bandwidth_for_footprint(moved) / cores
    core_rate = chip.long_copy_rate if in_l2 else chip.core_hbm_bytes_per_cycle
    latency, rate = chip.estimate_copy_cycles(0), min(core_rate, share)
    coming, leaving = (size / cores / tiles for size in (work.read_bytes, work.written_bytes))
    rows = max(chip.copy_start * work.copies / cores / tiles, coming / rate)
    vector = estimate_tile_cycles(work.vector, chip, cores, tiles)
    calls = chip.issue * (work.vector.instructions + PIPELINE_CALLS)
    memory = max((coming + leaving) / share, rows, leaving / rate)
    fill = (latency + rows if work.read_bytes else 0.0) + vector + latency + leaving / rate
    return fill + (tiles - 1) * max(memory, vector, calls), "vector" if vector > memory else "memory"


def estimate_tile_cycles(work: VectorWork, chip: Chip, cores: int, tiles: int) -> float:
    """The vector instructions of one tile."""
    repeats, rows = ceil(work.tensor_bytes / cores / tiles / REPEAT_BYTES), work.rows / cores / tiles
    combining = work.reductions * estimate_row_reduction(repeats, rows, chip)
    return repeats * work.cycles_per_repeat + work.instructions * chip.vector_start + rows * work.row_cycles + combining


def estimate_row_reduction(repeats: float, rows: float, chip: Chip) -> float:
    """The cycles to combine the elements of each row of a tile of floats to one, with the faster of two ways.

    The simulator charges the library's ReduceSum and ReduceMax two cycles per repeat, two instructions, and one for each row. Otherwise
    BlockReduceSum makes one element of 8 until a row fits into 256 bytes, and one WholeReduceSum combines each row.
    """
    rows = max(1.0, rows)
    by_library = LIBRARY_REDUCTION_CYCLES * repeats + (2 + ceil(rows)) * chip.vector_start
    direct, left = 0.0, float(repeats)
    while left > rows:
        direct += chip.reduce_start + left * chip.instruction_cycles("cgadd")
        left /= BLOCK_ELEMENTS
    direct += chip.reduce_start + rows * chip.instruction_cycles("cadd")
    return min(by_library, direct)


# ---- poolings


class PoolWindow(NamedTuple):
    """The windows of a pooling along the last axis, and how many lines of the input each of them has."""

    lines: int
    width: int
    stride: int
    is_sum: bool
    """Sums have an instruction for neighbours, maxima have none."""


def estimate_pool_cycles(window: PoolWindow, input_width: int, output_width: int, chip: Chip) -> tuple[float, int]:
    """The cycles for 256 bytes of the output, and the instructions for a tile.

    First the lines of each window are combined, over all columns, then its columns: instructions of vectors do not reach other lanes, so
    that each column of the windows is picked before.
    """
    combine = 1.0
    over_lines = (window.lines - 1) * combine * input_width / output_width
    mean = chip.instruction_cycles("muls") if window.is_sum else 0.0
    pieces = ceil(4 * input_width / REPEAT_BYTES)
    instructions = (window.lines - 1) * pieces + 2 * window.width
    return over_lines + estimate_window_cycles(window.width, window.stride, window.is_sum, chip) + mean, instructions


def estimate_window_cycles(width: int, stride: int, is_sum: bool, chip: Chip) -> float:
    """The cycles to combine the columns of windows, for 256 bytes of the output.

    GatherMask picks the elements of a column from the repeats that contain them, Gather from anywhere. Windows side by side are combined by
    BlockReduceMax or BlockReduceSum, 8 elements to one, and sums by PairReduceSum, two to one.
    """
    if width == 1 and stride == 1:
        return 0.0
    pick = min(stride * chip.instruction_cycles("gathermask"), chip.instruction_cycles("gather"))
    cycles = width * pick + width - 1
    if width == stride and width % BLOCK_ELEMENTS == 0:
        rest = width // BLOCK_ELEMENTS
        cycles = min(cycles, width * chip.instruction_cycles("cgadd") + estimate_window_cycles(rest, rest, is_sum, chip))
    if width == stride and is_sum and width % 2 == 0:
        rest = width // 2
        cycles = min(cycles, width * chip.instruction_cycles("cpadd") + estimate_window_cycles(rest, rest, is_sum, chip))
    return cycles
