"""Estimates the time of PyTorch on the chip: one kernel per operator of the reference, priced by the formulas of the simulator.

Each kernel is a good one of its kind (kernel_cost.py), as the vendor's library would run it. The estimate is optimistic in what it leaves
out: torch_npu's dispatch time of an operator, which is not published, and conversions between memory formats. No published time of an
operator of the library was found, so none is used.
"""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, prod
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from evokernel.backends.ascendc.chips import Chip
from evokernel.backends.ascendc.kernel_cost import (
    KernelEstimate,
    KernelWork,
    PoolWindow,
    VectorWork,
    element_bytes,
    estimate_kernel,
    estimate_pool_cycles,
)
from evokernel.backends.ascendc.matmul_cost import CubeWork, list_products
from evokernel.core import paths
from evokernel.core.errors import UserError
from evokernel.core.labels import format_count
from evokernel.core.records import Task
from evokernel.reference.program import Extent, Program, SizeDependent, Step, ValueRef
from evokernel.reference.program_cache import TRACING, cache_key, load_task_program

log = logging.getLogger(__name__)

NAME = "torch (estimate)"
BENCH_ALONE = (("bench alone", 0),)
"""Separates the cached programs of this one size from other cached programs."""
SOURCE = "formulas of the simulator"
SET_KEYS = (
    "views",
    "strided_views",
    "copying_views",
    "creation_ops",
    "data_movement_ops",
    "gather_ops",
    "row_gather_ops",
    "normalisations",
)
POOL_PREFIXES = ("max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool")
WIDE_NOTE = "64-bit arithmetic, which the vector units lack, counted as two 32-bit instructions"
UNKNOWN_NOTE = "estimated from its bytes only"
SCANS = ("cumsum", "cumprod", "cummax", "cummin")
WIDE_BYTES = 4
"""The library's functions for rows compute with elements of this size."""
RESIDENT_SHARE = 0.25
"""Share of UB that a row may fill such that a kernel need not read it twice: its input and output have two buffers each."""


class BaselineEstimate(NamedTuple):
    """The estimated time of the reference, with its kernels."""

    us: float | None
    """None if there is no baseline."""
    kernels: tuple[KernelEstimate, ...] = ()
    notes: tuple[str, ...] = ()
    """Uncertainties of the estimate, or the reason why there is none."""
    source: str = SOURCE
    """What the kernels are priced by."""

    @property
    def outside_us(self) -> float:
        """Time in which the cores do not work: launches, and starts of the cube and of Matmul."""
        return sum(kernel.outside_us for kernel in self.kernels)

    def describe(self) -> str:
        """What the estimate consists of, as a sentence."""
        kernels = format_count(len(self.kernels), "kernel")
        return f"PyTorch is estimated by the {self.source}: {kernels}, {self.outside_us:.1f} of {self.us or 0.0:.1f} µs outside the cores."


class TensorValue(NamedTuple):
    """A tensor in the program."""

    shape: tuple[int, ...]
    dtype: str
    stored_bytes: float
    """Bytes in memory: fewer than its elements need, if it is expanded."""
    is_strided: bool = False

    @property
    def elements(self) -> int:
        return prod(self.shape)


class RowFunction(NamedTuple):
    """What the simulator charges for rows that are contiguous in memory."""

    cycles: float
    """For each 256 bytes of floats."""
    instructions: int
    """For each tile."""
    row_cycles: float = 0.0
    """For each row."""
    group: int = 0
    """If not 0, there is a further instruction for each group of so many elements of a row."""
    function: str = ""
    """The function of the library."""


@dataclass(frozen=True)
class CostTable:
    """The contents of `baseline.toml`."""

    tile_bytes: int
    views: frozenset[str]
    strided_views: frozenset[str]
    copying_views: frozenset[str]
    creation_ops: frozenset[str]
    data_movement_ops: frozenset[str]
    gather_ops: frozenset[str]
    row_gather_ops: frozenset[str]
    normalisations: frozenset[str]
    library_rows: dict[str, RowFunction]
    row_reductions: dict[str, str]
    kernel_chains: dict[str, list[str]]
    instruction_mix: dict[str, str]


@lru_cache
def load_cost_table() -> CostTable:
    rows = tomllib.loads((Path(__file__).parent / "baseline.toml").read_text(encoding="utf-8"))
    sets = {name: frozenset(rows[name].split()) for name in SET_KEYS}
    functions = {op: RowFunction(**row) for op, row in rows["library_rows"].items()}
    return CostTable(**{**rows, **sets, "library_rows": functions})


def estimate_baseline(task: Task, chip: Chip) -> BaselineEstimate:
    """Sum the estimates of all kernels of the reference at bench size."""
    program = load_task_program(task)
    if program.unsupported_reason:
        program = trace_at_bench(task.source, task.id)
    if program.unsupported_reason:
        log.warning("no baseline of %s: %s", task.id, program.unsupported_reason)
        return BaselineEstimate(None, notes=(f"no baseline: {program.unsupported_reason}",))
    works, notes = list_kernels(program, chip)
    kernels = tuple(estimate_kernel(work, chip) for work in works)
    if not kernels:
        return BaselineEstimate(None, notes=("no baseline: the reference computes nothing",))
    return BaselineEstimate(sum(kernel.us for kernel in kernels), kernels, tuple(dict.fromkeys(notes)))


@lru_cache(maxsize=64)
def trace_at_bench(source: str, name: str) -> Program:
    """Trace a reference at bench size only, because its steps depend on the size. The result is cached: such programs have many steps."""
    place = paths.cache_folder() / "programs" / f"{cache_key(source, BENCH_ALONE)}.json"
    try:
        return Program.model_validate_json(place.read_bytes())
    except (OSError, ValidationError):
        pass
    from evokernel.reference.trace import trace_at_size

    try:
        with TRACING:
            program = trace_at_size(source, name, {})
    except UserError as error:
        program = Program(unsupported_reason=str(error))
    try:
        paths.write_bytes(place, program.model_dump_json().encode())
    except OSError as error:
        log.debug("cannot cache the traced program: %s", error)
    return program


def list_kernels(program: Program, chip: Chip) -> tuple[list[KernelWork], list[str]]:
    """The kernels of a program, and notes about uncertain estimates."""
    values: dict[ValueRef, TensorValue] = {}
    for argument in program.arguments:
        values[ValueRef(name=argument.name)] = tensor_value(argument.shape, argument.dtype)
    works: list[KernelWork] = []
    notes: list[str] = []
    for step in program.steps:
        op = operator_name(step.op)
        inputs = [values[ref] for ref in collect_refs((*step.args, *step.settings.values()))]
        outputs = [tensor_value(shape, dtype) for shape, dtype in zip(step.shapes, step.dtypes)]
        if op in load_cost_table().views and inputs:
            source = inputs[0]
            outputs = [make_view(op, source, one) for one in outputs]
            if is_copying_view(op, source, outputs):
                outputs = [one._replace(stored_bytes=float(tensor_bytes(one.shape, one.dtype)), is_strided=False) for one in outputs]
                vector = vector_work(op, outputs[0].elements, outputs[0].dtype, chip)
                works.append(KernelWork(op, source.stored_bytes, outputs[0].stored_bytes, vector))
        else:
            works += kernels_of_step(step, op, inputs, outputs, chip)
            notes += accuracy_notes(op, works[-1], inputs, outputs)
        values |= {ValueRef(name=step.name, result_index=i): one for i, one in enumerate(outputs)}
    return works, notes


def operator_name(op: str) -> str:
    """`aten.add_.Tensor` is `add`."""
    name = op.split(".")[1] if "." in op else op
    return name.removesuffix("_") if not name.startswith("__") else name


def collect_refs(values: Iterable[object]) -> Iterator[ValueRef]:
    """Yield every value that an operation uses once, at any depth of nested lists."""
    yielded_refs = set()
    pending = list(values)
    while pending:
        one = pending.pop(0)
        if isinstance(one, ValueRef) and one not in yielded_refs:
            yielded_refs.add(one)
            yield one
        elif isinstance(one, tuple):
            pending = [*one, *pending]


def tensor_value(shape: Iterable[Extent], dtype: str) -> TensorValue:
    """A tensor at bench size, which is the first size."""
    extents = tuple(int(n.values[0]) if isinstance(n, SizeDependent) else n for n in shape)
    return TensorValue(extents, dtype, float(tensor_bytes(extents, dtype)))


def tensor_bytes(shape: Sequence[int], dtype: str) -> int:
    return prod(shape) * element_bytes(dtype)


def make_view(op: str, source: TensorValue, output: TensorValue) -> TensorValue:
    """A view of a tensor, which shares the bytes of its source."""
    return output._replace(
        stored_bytes=min(output.stored_bytes, source.stored_bytes), is_strided=source.is_strided or op in load_cost_table().strided_views
    )


def is_copying_view(op: str, source: TensorValue, outputs: Sequence[TensorValue]) -> bool:
    """Whether an operator that usually returns a view must copy here."""
    return source.dtype != outputs[0].dtype or (source.is_strided and op in load_cost_table().copying_views)


def kernels_of_step(step: Step, op: str, inputs: list[TensorValue], outputs: list[TensorValue], chip: Chip) -> Iterator[KernelWork]:
    """The kernels that one operator runs."""
    table = load_cost_table()
    written_bytes = sum(one.stored_bytes for one in outputs)
    read_bytes = sum(one.stored_bytes for one in inputs)
    if op in table.gather_ops and inputs:
        read_bytes += min(inputs[0].stored_bytes, written_bytes) - inputs[0].stored_bytes
    if op in table.kernel_chains:
        yield from kernels_of_chain(op, inputs, outputs, chip)
    elif op == "scaled_dot_product_attention" and outputs[0].dtype == "float32":
        yield from kernels_of_attention(inputs, outputs[0], chip)
    elif products := list_products(step, op, [one.shape for one in inputs], [one.shape for one in outputs], outputs[0].dtype):
        scores = sum(product.batch * product.rows * product.columns for product in products if not product.is_stored)
        rows = Rows(sum(product.batch * product.rows for product in products if not product.is_stored), True)
        yield KernelWork(op, read_bytes, written_bytes, vector_work("softmax", scores, outputs[0].dtype, chip, rows), products)
    else:
        yield kernel_of_tiles(step, op, inputs, outputs, read_bytes, chip)


def kernel_of_tiles(
    step: Step, op: str, inputs: list[TensorValue], outputs: list[TensorValue], read_bytes: float, chip: Chip
) -> KernelWork:
    """A kernel on the vector units. A row that does not fit into UB is read twice; fewer rows than cores are combined."""
    table, written_bytes = load_cost_table(), sum(one.stored_bytes for one in outputs)
    elements = outputs[0].elements if op in table.gather_ops else max(one.elements for one in (*inputs, *outputs))
    dtype = largest_dtype(inputs, outputs)
    rows = count_rows(step, op, inputs, outputs) if inputs else None
    if op.startswith(POOL_PREFIXES) and inputs:
        vector = pool_work(step, op, inputs[0].shape, outputs[0].shape, dtype, chip)
        rows = None
    else:
        vector = vector_work(op, elements, dtype, chip, rows if rows and rows.is_contiguous else None)
    if rows and op in table.normalisations and vector.tensor_bytes / rows.number > RESIDENT_SHARE * chip.ub_bytes:
        read_bytes += inputs[0].stored_bytes
    is_combined = rows is not None and rows.number < chip.aiv_cores and vector.tensor_bytes > table.tile_bytes
    copies = outputs[0].elements // max(1, outputs[0].shape[-1]) if op in table.row_gather_ops and outputs[0].shape else 0
    return KernelWork(op, read_bytes, written_bytes, vector, is_combined=is_combined, copies=copies)


class Rows(NamedTuple):
    """The rows that an operator reduces."""

    number: int
    is_contiguous: bool
    """Whether the elements of a row are neighbours in memory, so that an instruction must combine lanes."""


def count_rows(step: Step, op: str, inputs: Sequence[TensorValue], outputs: Sequence[TensorValue]) -> Rows | None:
    """The rows that an operator reduces; None if it reduces none."""
    shape, result = inputs[0].shape, outputs[0].elements
    table = load_cost_table()
    if op not in table.row_reductions | table.library_rows or not shape:
        return None
    axes = step.args[1] if len(step.args) > 1 else step.settings.get("dim", step.settings.get("normalized_shape"))
    if op in ("layer_norm", "native_layer_norm", "rms_norm"):
        sizes = [read_integer(one) for one in (axes if isinstance(axes, tuple) else (axes,))]
        return Rows(max(1, inputs[0].elements // max(1, prod(sizes))), True)
    if op == "group_norm":
        return Rows(max(1, shape[0] * read_integer(axes)), True)
    if op == "instance_norm":
        return Rows(max(1, prod(shape[:2])), True)
    single = axes if isinstance(axes, tuple) else (axes,)
    is_last = any(isinstance(axis, int) and not isinstance(axis, bool) and axis in (-1, len(shape) - 1) for axis in single)
    if (op in table.normalisations or op in SCANS) and isinstance(axes, int):
        return Rows(max(1, inputs[0].elements // max(1, shape[axes])), is_last)
    if result >= inputs[0].elements:
        return None
    return Rows(max(1, result), is_last or not any(isinstance(axis, int) and not isinstance(axis, bool) for axis in single))


def read_integer(value: object) -> int:
    """An extent at bench size; 1 if it is none."""
    if isinstance(value, SizeDependent):
        return int(value.values[0])
    return value if isinstance(value, int) else 1


def kernels_of_chain(op: str, inputs: list[TensorValue], outputs: list[TensorValue], chip: Chip) -> Iterator[KernelWork]:
    """The sequential kernels of an operator; only the last one writes its result."""
    between = inputs[0]
    read, extra = between.stored_bytes, sum(one.stored_bytes for one in inputs[1:])
    *first, last = load_cost_table().kernel_chains[op]
    rows = Rows(between.elements // max(1, between.shape[1]), True) if len(between.shape) == 2 else None
    for name in first:
        yield KernelWork(f"{op}: {name}", read, between.stored_bytes, vector_work(name, between.elements, between.dtype, chip, rows))
    vector = vector_work(last, between.elements, between.dtype, chip)
    is_combined = outputs[0].elements < chip.aiv_cores and vector.tensor_bytes > load_cost_table().tile_bytes
    yield KernelWork(f"{op}: {last}", read + extra, sum(one.stored_bytes for one in outputs), vector, is_combined=is_combined)


def kernels_of_attention(inputs: list[TensorValue], output: TensorValue, chip: Chip) -> Iterator[KernelWork]:
    """Attention as separate kernels, because CANN's fused attention supports only 16-bit types."""
    query, key, values = inputs[:3]
    batch, rows, keys = prod(query.shape[:-2]), query.shape[-2], key.shape[-2]
    scores = batch * rows * keys
    between = float(scores * element_bytes(query.dtype))
    masks = sum(one.stored_bytes for one in inputs[3:])
    first = CubeWork(batch, rows, keys, query.shape[-1], query.dtype, is_right_turned=True)
    second = CubeWork(batch, rows, values.shape[-1], keys, query.dtype)
    softmax = vector_work("softmax", scores, query.dtype, chip, Rows(batch * rows, True))
    yield KernelWork("attention: scores", query.stored_bytes + key.stored_bytes, between, products=(first,))
    yield KernelWork("attention: softmax", between + masks, between, softmax)
    yield KernelWork("attention: values", between + values.stored_bytes, output.stored_bytes, products=(second,))


def pool_work(step: Step, op: str, source: Sequence[int], result: Sequence[int], dtype: str, chip: Chip) -> VectorWork:
    """The work of a pooling: windows along the last axis, and the lines of each window. One window for all is the reduction of a row."""
    axes, is_sum = int(op[-2]), "avg" in op
    if op.startswith("adaptive"):
        if prod(result[-axes:]) == 1:
            return vector_work("mean" if is_sum else "amax", prod(source), dtype, chip, Rows(max(1, prod(result)), True))
        extents = strides = [ceil(n / out) for n, out in zip(source[-axes:], result[-axes:])]
    else:
        extents = window_extents(step.args[1] if len(step.args) > 1 else step.settings.get("kernel_size", 1), axes)
        strides = window_extents((step.args[2] if len(step.args) > 2 else step.settings.get("stride", ())) or tuple(extents), axes)
    window = PoolWindow(prod(extents[:-1]), extents[-1], strides[-1], is_sum)
    cycles, instructions = estimate_pool_cycles(window, source[-1], result[-1], chip)
    inside, conversions = find_computing_type(dtype)
    cycles += conversions * prod(source) / max(1, prod(result))
    return VectorWork(float(prod(result) * element_bytes(inside)), cycles, instructions + conversions)


def window_extents(value: object, axes: int) -> list[int]:
    """The extents of a window along each axis, from one number or several."""
    values = value if isinstance(value, tuple) else (value,)
    extents = [read_integer(one) for one in values]
    return extents if len(extents) == axes else extents[:1] * axes


def largest_dtype(inputs: Sequence[TensorValue], outputs: Sequence[TensorValue]) -> str:
    """The type of the largest tensor."""
    return max((*inputs, *outputs), key=lambda one: one.elements).dtype


def vector_work(op: str, elements: int, dtype: str, chip: Chip, rows: Rows | None = None) -> VectorWork:
    """The work of the vector units, including conversions for types that they do not support. Rows are contiguous in memory."""
    table = load_cost_table()
    mix, combined = table.instruction_mix.get(op, ""), table.row_reductions.get(op, "")
    if not mix + combined or not elements or op in table.data_movement_ops:
        return VectorWork()
    inside, conversions = find_computing_type(dtype)
    if rows and (function := table.library_rows.get(op)):
        lengths = min(elements / max(1, rows.number), table.tile_bytes / WIDE_BYTES)
        instructions = function.instructions + (ceil(lengths / function.group) if function.group else 0)
        cycles = function.cycles + (2 if element_bytes(dtype) < WIDE_BYTES else 0)
        return VectorWork(float(WIDE_BYTES * elements), cycles, instructions, 0, rows.number, function.row_cycles)
    each = [*expand_instructions(mix), *["conv"] * conversions]
    if not rows:
        each += expand_instructions(combined)
    cycles = sum(chip.instruction_cycles(name, inside) for name in each)
    reductions = len(list(expand_instructions(combined))) if rows else 0
    return VectorWork(float(elements * element_bytes(inside)), cycles, len(each), reductions, rows.number if rows else 0)


def find_computing_type(dtype: str) -> tuple[str, int]:
    """The type that vector units compute with, and how many conversions each element needs."""
    return {"bfloat16": ("float32", 2), "bool": ("float16", 2), "int8": ("float16", 2), "uint8": ("float16", 2)}.get(dtype, (dtype, 0))


def expand_instructions(mix: str) -> Iterator[str]:
    """Expand `mul*3 add` to `mul mul mul add`."""
    for word in mix.split():
        name, _, times = word.partition("*")
        yield from [name] * int(times or 1)


def accuracy_notes(op: str, work: KernelWork, inputs: Sequence[TensorValue], outputs: Sequence[TensorValue]) -> Iterator[str]:
    """Notes about uncertainties in the estimate of an operator."""
    rows = load_cost_table()
    is_estimated = work.vector.instructions or work.vector.reductions or work.products or op in rows.kernel_chains
    if not is_estimated and op not in rows.creation_ops | rows.data_movement_ops | rows.gather_ops | rows.instruction_mix.keys():
        yield f"{op}: {UNKNOWN_NOTE}"
    if work.vector.tensor_bytes and element_bytes(largest_dtype(inputs, outputs)) == 8:
        yield f"{op}: {WIDE_NOTE}"
