"""Estimates a well-written kernel of a complete task: the operators of the reference, fused into one launch."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from evokernel.backends.ascendc.chips import REPEAT_BYTES, Chip, find_chip
from evokernel.backends.ascendc.kernel_cost import (
    KernelWork,
    VectorWork,
    estimate_cube_cycles,
    estimate_kernel,
    estimate_row_reduction,
    estimate_tiles,
)
from evokernel.core.records import Task


class BetterKernel(NamedTuple):
    """The estimated times of a well-written kernel of a task on all cores, in microseconds."""

    us: float
    """All of it, with the launch and, for products, the start of the cube and of Matmul."""
    vector_us: float
    """Vector instructions of the busiest core."""
    reduction_us: float
    """Those among them that combine lanes."""
    product_us: float
    """Products on the cube; 0 if the task has none."""


def estimate_better_kernel(task: Task, chip: Chip) -> BetterKernel | None:
    """The estimate, or None if the reference cannot be traced."""
    return estimate_by_task(TaskKey(task), chip.name)


class TaskKey:
    """A task as the key of a cache."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def __hash__(self) -> int:
        return hash((self.task.id, self.task.source))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskKey) and self.task == other.task


@lru_cache(maxsize=64)
def estimate_by_task(key: TaskKey, chip_name: str) -> BetterKernel | None:
    """The estimate of one task, computed once."""
    from evokernel.backends.ascendc.baseline import list_kernels, load_cost_table
    from evokernel.reference.program_cache import load_task_program

    chip = find_chip(chip_name)
    program = load_task_program(key.task)
    if program.unsupported_reason:
        return None
    works, _ = list_kernels(program, chip)
    if not works:
        return None
    signature = key.task.signature
    read_bytes = float(sum(tensor.nbytes for tensor in (*signature.inputs, *signature.params)))
    fused = fuse_kernels(works, read_bytes, float(sum(tensor.nbytes for tensor in signature.outputs)))
    vector = fused.vector
    tiles = max(1.0, vector.tensor_bytes / chip.aiv_cores / load_cost_table().tile_bytes)
    repeats, rows = vector.tensor_bytes / REPEAT_BYTES / chip.aiv_cores, vector.rows / chip.aiv_cores
    cycles = repeats * vector.cycles_per_repeat + vector.instructions * chip.vector_start * tiles + rows * vector.row_cycles
    reduction = vector.reductions * tiles * estimate_row_reduction(repeats / tiles, rows / tiles, chip)
    product = sum(estimate_cube_cycles(one, chip.name, chip.cold_l2) for one in fused.products)
    us = estimate_kernel(fused, chip).us
    if fused.products:  # the library's Matmul starts with vector cores; what they compute follows the product
        after, _ = estimate_tiles(fused._replace(products=()), chip) if vector.tensor_bytes else (0.0, "")
        start = chip.matmul_start + chip.cube_start * chip.aic_cores
        us = chip.launch_us + chip.cycles_to_us(start + product + after)
    return BetterKernel(us, chip.cycles_to_us(cycles + reduction), chip.cycles_to_us(reduction), chip.cycles_to_us(product))


def fuse_kernels(works: list[KernelWork], read_bytes: float, written_bytes: float) -> KernelWork:
    """One kernel that does the work of all, and reads and writes only the task's tensors."""
    vectors = [work.vector for work in works if not work.products and work.vector.tensor_bytes]
    largest = max((vector.tensor_bytes for vector in vectors), default=0.0)
    repeats = sum(vector.tensor_bytes * vector.cycles_per_repeat for vector in vectors)
    fused = VectorWork(
        largest,
        repeats / largest if largest else 0.0,
        sum(vector.instructions for vector in vectors),
        sum(vector.reductions for vector in vectors),
        max((vector.rows for vector in vectors), default=0),
        max((vector.row_cycles for vector in vectors), default=0.0),
    )
    products = tuple(product for work in works for product in work.products)
    return KernelWork("fused", read_bytes, written_bytes, fused, products, any(work.is_combined for work in works))
