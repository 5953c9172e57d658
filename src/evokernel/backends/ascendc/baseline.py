"""Estimates the time of PyTorch on the chip: one kernel per operator of the reference, with the same cost tables as the simulator.

The estimate is optimistic: kernels overlap copies and computation perfectly and follow each other without a gap. It includes neither
torch_npu's dispatch time of an operator, which is not published, nor conversions between memory formats.
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

from evokernel.backends.ascendc.chips import REPEAT_BYTES, Chip
from evokernel.backends.ascendc.matmul_cost import CubeWork, cube_work
from evokernel.core import paths
from evokernel.core.errors import UserError
from evokernel.core.records import Task
from evokernel.reference.program import Extent, Program, SizeDependent, Step, ValueRef
from evokernel.reference.program_cache import TRACING, cache_key, load_task_program

log = logging.getLogger(__name__)

NAME = "torch (estimate)"
BENCH_ALONE = (("bench alone", 0),)
"""Separates the cached programs of this one size from other cached programs."""
SET_KEYS = ("views", "strided_views", "copying_views", "creation_ops", "data_movement_ops", "gather_ops")
POOL_PREFIXES = ("max_pool", "avg_pool")
WIDE_NOTE = "64-bit arithmetic, which the vector units lack, counted as two 32-bit instructions"
UNKNOWN_NOTE = "estimated from its bytes only"


class KernelEstimate(NamedTuple):
    """The estimated time of one kernel."""

    op: str
    us: float
    bound: str
    """The longest part apart from the launch: `memory`, `vector` or `cube`."""


class BaselineEstimate(NamedTuple):
    """The estimated time of the reference, with its kernels."""

    us: float | None
    """None if there is no baseline."""
    kernels: tuple[KernelEstimate, ...] = ()
    notes: tuple[str, ...] = ()
    """Uncertainties of the estimate, or the reason why there is none."""


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


class KernelWork(NamedTuple):
    """The traffic and computation of one kernel."""

    op: str
    read_bytes: float
    written_bytes: float
    vector_cycles: float = 0.0
    """Sum over all vector units."""
    product: CubeWork = CubeWork()


@dataclass(frozen=True)
class CostTable:
    """The contents of `baseline.toml`."""

    cube_efficiency: float
    tile_bytes: int
    views: frozenset[str]
    strided_views: frozenset[str]
    copying_views: frozenset[str]
    creation_ops: frozenset[str]
    data_movement_ops: frozenset[str]
    gather_ops: frozenset[str]
    kernel_chains: dict[str, list[str]]
    instruction_mix: dict[str, str]


@lru_cache
def load_cost_table() -> CostTable:
    rows = tomllib.loads((Path(__file__).parent / "baseline.toml").read_text(encoding="utf-8"))
    sets = {name: frozenset(rows[name].split()) for name in SET_KEYS}
    return CostTable(**{**rows, **sets})


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


def estimate_kernel(work: KernelWork, chip: Chip) -> KernelEstimate:
    """Sum the launch, the latency of the first and the last copy, and the longest part between them."""
    moved_bytes = work.read_bytes + work.written_bytes
    times = {
        "memory": chip.cycles_to_us(moved_bytes / chip.bandwidth_for_footprint(moved_bytes)),
        "vector": chip.cycles_to_us(work.vector_cycles / chip.aiv_cores),
        "cube": chip.cycles_to_us(
            work.product.macs / (chip.aic_cores * macs_per_cycle(work.product.dtype, chip) * load_cost_table().cube_efficiency)
        ),
    }
    bound, longest = max(times.items(), key=lambda item: item[1])
    ways = chip.cycles_to_us((2 if work.read_bytes else 1) * chip.estimate_copy_cycles(0))
    return KernelEstimate(work.op, chip.launch_us + ways + longest, bound)


def macs_per_cycle(dtype: str, chip: Chip) -> int:
    """Multiply-adds of a cube core per cycle; float32 at full precision, the default of torch_npu for matrices."""
    if dtype in ("float16", "bfloat16"):
        return chip.cube_macs_half
    return chip.cube_macs_int8 if dtype in ("int8", "uint8") else chip.cube_macs_float


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
                works.append(
                    KernelWork(
                        op,
                        source.stored_bytes,
                        outputs[0].stored_bytes,
                        estimate_vector_cycles(op, outputs[0].elements, outputs[0].dtype, chip),
                    )
                )
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


def element_bytes(dtype: str) -> int:
    """Bytes of an element."""
    return max(1, int("".join(filter(str.isdigit, dtype)) or 8) // 8)


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
    written_bytes = sum(one.stored_bytes for one in outputs)
    read_bytes = sum(one.stored_bytes for one in inputs)
    if op in load_cost_table().gather_ops and inputs:
        read_bytes += min(inputs[0].stored_bytes, written_bytes) - inputs[0].stored_bytes
    if op in load_cost_table().kernel_chains:
        yield from kernels_of_chain(op, inputs, outputs, chip)
    elif op == "scaled_dot_product_attention" and outputs[0].dtype == "float32":
        yield from kernels_of_attention(inputs, outputs[0], chip)
    elif cube := cube_work(step, op, [one.shape for one in inputs], [one.shape for one in outputs], outputs[0].dtype):
        scores = estimate_vector_cycles("softmax", cube.scores, outputs[0].dtype, chip)
        yield KernelWork(op, read_bytes, written_bytes, scores, cube)
    else:
        elements = prod(outputs[0].shape) if op in load_cost_table().gather_ops else max(one.elements for one in (*inputs, *outputs))
        if op.startswith(POOL_PREFIXES):
            elements = outputs[0].elements * pool_window_elements(step)
        yield KernelWork(op, read_bytes, written_bytes, estimate_vector_cycles(op, elements, largest_dtype(inputs, outputs), chip))


def kernels_of_chain(op: str, inputs: list[TensorValue], outputs: list[TensorValue], chip: Chip) -> Iterator[KernelWork]:
    """The sequential kernels of an operator; only the last one writes its result."""
    between = inputs[0]
    read, extra = between.stored_bytes, sum(one.stored_bytes for one in inputs[1:])
    *first, last = load_cost_table().kernel_chains[op]
    for name in first:
        yield KernelWork(f"{op}: {name}", read, between.stored_bytes, estimate_vector_cycles(name, between.elements, between.dtype, chip))
    cycles = estimate_vector_cycles(last, between.elements, between.dtype, chip)
    yield KernelWork(f"{op}: {last}", read + extra, sum(one.stored_bytes for one in outputs), cycles)


def kernels_of_attention(inputs: list[TensorValue], output: TensorValue, chip: Chip) -> Iterator[KernelWork]:
    """Attention as separate kernels, because CANN's fused attention supports only 16-bit types."""
    query, key, values = inputs[:3]
    rows, depth = query.elements // query.shape[-1], query.shape[-1]
    scores = rows * key.shape[-2]
    between = float(scores * element_bytes(query.dtype))
    masks = sum(one.stored_bytes for one in inputs[3:])
    yield KernelWork("attention: scores", query.stored_bytes + key.stored_bytes, between, 0.0, CubeWork(float(scores * depth), query.dtype))
    yield KernelWork("attention: softmax", between + masks, between, estimate_vector_cycles("softmax", scores, query.dtype, chip))
    yield KernelWork(
        "attention: values",
        between + values.stored_bytes,
        output.stored_bytes,
        0.0,
        CubeWork(float(scores * values.shape[-1]), query.dtype),
    )


def pool_window_elements(step: Step) -> int:
    """Number of elements in the window of a pooling operator."""
    extent = step.args[1] if len(step.args) > 1 else step.settings.get("kernel_size", 1)
    extents = extent if isinstance(extent, tuple) else (extent,) * int(operator_name(step.op)[-2])
    return prod(int(n.values[0]) if isinstance(n, SizeDependent) else int(n) for n in extents if isinstance(n, int | float | SizeDependent))


def largest_dtype(inputs: Sequence[TensorValue], outputs: Sequence[TensorValue]) -> str:
    """The type of the largest tensor."""
    return max((*inputs, *outputs), key=lambda one: one.elements).dtype


def estimate_vector_cycles(op: str, elements: int, dtype: str, chip: Chip) -> float:
    """Cycles of the vector units, including conversions for types that they do not support."""
    mix = load_cost_table().instruction_mix.get(op, "")
    if not mix or op in load_cost_table().data_movement_ops:
        return 0.0
    conversion_types = {"bfloat16": ("float32", 2), "bool": ("float16", 2), "int8": ("float16", 2), "uint8": ("float16", 2)}
    inside, conversions = conversion_types.get(dtype, (dtype, 0))
    repeats = ceil(elements * element_bytes(inside) / REPEAT_BYTES)
    each = [*expand_instructions(mix), *["conv"] * conversions]
    start = chip.vector_start * REPEAT_BYTES / load_cost_table().tile_bytes
    return repeats * sum(chip.instruction_cycles(name, inside) + start for name in each)


def expand_instructions(mix: str) -> Iterator[str]:
    """Expand `mul*3 add` to `mul mul mul add`."""
    for word in mix.split():
        name, _, times = word.partition("*")
        yield from [name] * int(times or 1)


def accuracy_notes(op: str, work: KernelWork, inputs: Sequence[TensorValue], outputs: Sequence[TensorValue]) -> Iterator[str]:
    """Notes about uncertainties in the estimate of an operator."""
    rows = load_cost_table()
    is_estimated = work.vector_cycles or work.product.macs or op in rows.kernel_chains
    if not is_estimated and op not in rows.creation_ops | rows.data_movement_ops | rows.gather_ops | rows.instruction_mix.keys():
        yield f"{op}: {UNKNOWN_NOTE}"
    if work.vector_cycles and element_bytes(largest_dtype(inputs, outputs)) == 8:
        yield f"{op}: {WIDE_NOTE}"
